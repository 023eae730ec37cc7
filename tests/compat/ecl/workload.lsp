;;; What a Lisp program asks of a collector: conses, structures, CLOS instances, bignums, weak hash
;;; tables, weak pointers, finalizers, threads. Figures that depend on conservative scanning are
;;; printed as bounds.
(defvar *scale* (parse-integer (or (ext:getenv "SCALE") "1")))

(defmacro section (name &body body)
  `(progn (format t "~a: ~a~%" ,name (progn ,@body)) (finish-output)))

(defstruct node left right)
(defun build (depth)
  (if (= depth 0)
      (make-node)
      (make-node :left (build (1- depth)) :right (build (1- depth)))))
(defun count-nodes (tree)
  (if (node-left tree)
      (+ 1 (count-nodes (node-left tree)) (count-nodes (node-right tree)))
      1))

(section "trees"
  (let ((long-lived (build 14)))
    (list (loop repeat (* *scale* 20) sum (count-nodes (build 11))) (count-nodes long-lived))))

(section "conses"
  (let ((kept nil))
    (dotimes (i (* *scale* 100))
      (let ((list (loop for j below 2000 collect (cons j i))))
        (when (= 0 (mod i 10)) (push list kept))))
    (reduce #'+ (mapcar #'length kept))))

(section "strings"
  (let ((table (make-hash-table :test 'equal)))
    (dotimes (i (* *scale* 20000))
      (incf (gethash (format nil "word-~x" (mod (* i 48271) 65537)) table 0)))
    (list (hash-table-count table)
          (subseq (sort (loop for key being the hash-keys of table collect key) #'string<) 0 3))))

(section "bignums"
  (let ((product 1))
    (loop for i from 1 to 2000 do (setf product (* product i)))
    (list (integer-length product) (mod (expt 7 10000) 1000007)
          (loop for i from 1 to 100 sum (/ 1 i)))))

(section "arrays"
  (loop with kept = (make-array 32)
        for i below (* *scale* 2000)
        do (setf (aref kept (mod i 32)) (make-array (+ 1 (mod (* i 7919) 3000))
                                                    :element-type (if (evenp i) 'double-float t)
                                                    :initial-element (if (evenp i) 1d0 i)))
        finally (return (reduce #'+ (map 'vector #'length kept)))))

(defclass shape () ((size :initarg :size :reader size)))
(defclass square (shape) ())
(defclass circle (shape) ())
(defgeneric area (shape))
(defmethod area ((s square)) (* (size s) (size s)))
(defmethod area ((c circle)) (* 3 (size c) (size c)))
(section "instances"
  (loop for i below (* *scale* 20000)
        sum (area (make-instance (if (evenp i) 'square 'circle) :size (mod i 10)))))

(section "closures"
  (let ((functions (loop for i below 5000 collect (let ((n i)) (lambda (x) (+ n x))))))
    (ext:gc t)
    (loop for f in functions sum (funcall f 1))))

;;; Weak hash tables forget what nothing else holds, and only that.
;;; The keys are structures: ECL holds conses by tagged pointers, which it does not hide.
(defun fill-weak (table n)
  (loop for i below n
        for key = (make-node :left i)
        do (setf (gethash key table) i)
        when (= 0 (mod i 10)) collect key))
(dolist (weakness '(:key :value :key-and-value :key-or-value))
  (section (format nil "weak ~(~a~)" weakness)
    (let* ((table (make-hash-table :test 'eq :weakness weakness))
           (held (fill-weak table 5000)))
      (ext:gc t)
      (ext:gc t)
      (list (length held)
            (every (lambda (key) (eql (node-left key) (gethash key table))) held)
            (<= 500 (hash-table-count table) (if (eq weakness :value) 5000 1500))))))
(section "weak keys are dropped"
  (let ((table (make-hash-table :test 'eq :weakness :key)))
    (fill-weak table 20000)
    (ext:gc t)
    (ext:gc t)
    (<= 2000 (hash-table-count table) 4000)))
(section "weak pointers"
  (let* ((objects (loop for i below 1000 collect (list i)))
         (pointers (mapcar #'ext:make-weak-pointer objects)))
    (ext:gc t)
    (every (lambda (object pointer) (eq object (ext:weak-pointer-value pointer))) objects pointers)))

;;; Finalizers run once for dead objects and never for living ones.
(defvar *finalized* 0)
(defvar *kept* nil)
(defun count-finalized (object)
  (declare (ignore object))
  (incf *finalized*))
(defun make-finalized (n)
  (loop for i below n
        do (let ((object (make-node :left i)))
             (ext:set-finalizer object #'count-finalized)
             (when (= 0 (mod i 10)) (push object *kept*)))))
(section "finalizers"
  (progn
    (make-finalized 5000)
    (ext:gc t) (ext:gc t)
    (loop repeat 50 until (> *finalized* 4000) do (ext:gc t) (sleep 0.01))
    (list (< 4000 *finalized* 4501) (length *kept*))))

;;; Threads.
(section "threads"
  (let ((lock (mp:make-lock)) (total 0))
    (let ((threads (loop for i below 4
                         collect (mp:process-run-function
                                  (format nil "worker ~d" i)
                                  (lambda ()
                                    (loop repeat (* *scale* 4)
                                          do (let ((n (count-nodes (build 9))))
                                               (mp:with-lock (lock) (incf total n)))))))))
      (mapc #'mp:process-join threads)
      total)))
(section "thread churn"
  (loop for i below (* *scale* 50)
        sum (let ((n i))
              (multiple-value-bind (value)
                  (mp:process-join (mp:process-run-function
                                    'short (lambda () (length (make-list (+ n 1000))))))
                value))))
(section "weak table shared by threads"
  (let* ((table (make-hash-table :test 'eq :weakness :key))
         (lock (mp:make-lock))
         (threads (loop for i below 3
                        collect (mp:process-run-function
                                 'filler
                                 (lambda () (length (mp:with-lock (lock) (fill-weak table 2000))))))))
    (ext:gc t)
    (mapcar (lambda (thread) (mp:process-join thread)) threads)))

;;; Conditions, special variables, multiple values, dynamic extent of stacks.
(section "conditions"
  (loop for i below (* *scale* 3000)
        sum (handler-case (error "condition ~d" i)
              (simple-error (c) (length (princ-to-string c))))))
(section "deep recursion"
  (labels ((deep (n) (if (= n 0) 0 (1+ (deep (1- n)))))) (deep 5000)))
(section "evaluation"
  (loop for i below (* *scale* 300)
        sum (funcall (eval `(lambda (x) (let ((y (list x ,i))) (apply #'+ y)))) 1)))
