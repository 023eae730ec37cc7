;; What a Scheme program asks of a collector: trees, weak tables, guardians, continuations, threads,
;; finalized foreign objects. The figures that depend on conservative scanning are printed as bounds.
(use-modules (ice-9 threads) (ice-9 control) (ice-9 format) (srfi srfi-1) (srfi srfi-9) (srfi srfi-11)
             (rnrs bytevectors) (system foreign))

(define scale (let ((arguments (command-line)))
                (if (> (length arguments) 1) (string->number (cadr arguments)) 1)))

(define-syntax-rule (section name body ...)
  (begin (format #t "~a: ~a\n" name (begin body ...)) (force-output)))

(define (table-size table) (hash-fold (lambda (key value n) (+ n 1)) 0 table))

;; Binary trees of records.
(define-record-type <node> (make-node left right) node? (left node-left) (right node-right))
(define (build depth)
  (if (= depth 0) (make-node #f #f) (make-node (build (- depth 1)) (build (- depth 1)))))
(define (count-nodes tree)
  (if (node-left tree) (+ 1 (count-nodes (node-left tree)) (count-nodes (node-right tree))) 1))
(section "trees"
  (let ((long-lived (build 16)))
    (list (let loop ((i 0) (sum 0))
            (if (= i (* scale 100)) sum (loop (+ i 1) (+ sum (count-nodes (build 12))))))
          (count-nodes long-lived))))

;; Pointer-free objects of all sizes, and large vectors.
(section "bytes"
  (let ((kept (make-vector 64 #f)))
    (do ((i 0 (+ i 1))) ((= i (* scale 20000)))
      (let ((bytes (make-bytevector (+ 1 (modulo (* i 7919) 4000)) (modulo i 256))))
        (vector-set! kept (modulo i 64) bytes)))
    (fold + 0 (map (lambda (b) (+ (bytevector-length b) (bytevector-u8-ref b 0))) (vector->list kept)))))
(section "vectors"
  (let loop ((i 0) (kept '()) (sum 0))
    (if (= i (* scale 60))
        (list sum (length kept))
        (let ((v (make-vector (+ 1000 (* i 500)) i)))
          (vector-set! v (quotient (vector-length v) 2) (cons i v))
          (loop (+ i 1) (if (even? i) (cons v kept) kept) (+ sum (vector-length v)))))))

;; Strings, symbols, association lists, sorting.
(section "strings"
  (let* ((words (map (lambda (i) (string-append "word-" (number->string (modulo (* i 48271) 65537) 16)))
                     (iota (* scale 20000))))
         (table (make-hash-table)))
    (for-each (lambda (word) (hash-set! table word (+ 1 (hash-ref table word 0)))) words)
    (list (table-size table)
          (take (sort (hash-map->list (lambda (key _) key) table) string<?) 3)
          (string-length (string-concatenate words)))))
(section "symbols"
  (do ((i 0 (+ i 1)) (sum 0 (+ sum (string-length (symbol->string
                              (string->symbol (format #f "symbol~a" i)))))))
      ((= i (* scale 5000)) sum)))

;; Numbers that need memory.
(define (factorial n) (let loop ((n n) (product 1)) (if (= n 0) product (loop (- n 1) (* n product)))))
(section "bignums"
  (list (string-length (number->string (factorial 3000)))
        (modulo (expt 7 20000) 1000007)
        (fold + 0 (map (lambda (i) (/ 1 (+ i 1))) (iota 200)))))
(section "flonums"
  (format #f "~,6f" (let loop ((i 1) (sum 0.0))
                      (if (> i (* scale 300000)) sum (loop (+ i 1) (+ sum (/ 1.0 (* i i))))))))

;; Weak tables forget what nothing else holds, and only that.
(define (fill-weak! table n held)
  (let loop ((i 0) (held held))
    (if (= i n)
        held
        (let ((key (list i)))
          (hashq-set! table key (vector i))
          (loop (+ i 1) (if (= 0 (modulo i 10)) (cons key held) held))))))
(define weak-keys (make-weak-key-hash-table))
(define held-keys (fill-weak! weak-keys 20000 '()))
(gc) (gc)
(section "weak keys"
  (list (length held-keys)
        (every (lambda (key) (= (car key) (vector-ref (hashq-ref weak-keys key) 0))) held-keys)
        (< 1999 (table-size weak-keys) 6000)))
(define weak-values (make-weak-value-hash-table))
(define held-values
  (filter-map (lambda (i) (let ((value (list i)))
                            (hash-set! weak-values i value)
                            (and (= 0 (modulo i 4)) value)))
              (iota 20000)))
(gc) (gc)
(section "weak values"
  (list (every (lambda (value) (eq? value (hash-ref weak-values (car value)))) held-values)
        (< 4999 (table-size weak-values) 9000)))
(define doubly-weak (make-doubly-weak-hash-table))
(section "doubly weak"
  (let ((pairs (map (lambda (i) (cons (list i) (list i))) (iota 1000))))
    (for-each (lambda (pair) (hashq-set! doubly-weak (car pair) (cdr pair))) pairs)
    (gc)
    (every (lambda (pair) (eq? (cdr pair) (hashq-ref doubly-weak (car pair)))) pairs)))
(define properties (make-object-property))
(section "object properties"
  (let ((objects (map list (iota 1000))))
    (for-each (lambda (o) (set! (properties o) (* 2 (car o)))) objects)
    (gc)
    (fold + 0 (map properties objects))))

;; Guardians hand back each dead object once.
(define guardian (make-guardian))
(define (guard-many n) (do ((i 0 (+ i 1))) ((= i n)) (guardian (cons 'guarded i))))
(guard-many 10000)
(gc) (gc)
(section "guardian"
  (let loop ((seen (make-vector 10000 0)) (count 0))
    (let ((object (guardian)))
      (if object
          (begin (vector-set! seen (cdr object) (+ 1 (vector-ref seen (cdr object))))
                 (loop seen (+ count 1)))
          (list (> count 9000) (every (lambda (n) (<= n 1)) (vector->list seen)))))))

;; Continuations: stacks on the heap.
(define (tree->generator tree)
  (define return #f)
  (define (walk tree)
    (when (node-left tree)
      (walk (node-left tree)) (walk (node-right tree)))
    (call/cc (lambda (resume)
               (set! next (lambda () (resume #f)))
               (return 1))))
  (define next (lambda () (walk tree) (return #f)))
  (lambda () (call/cc (lambda (k) (set! return k) (next)))))
(section "call/cc"
  (let ((generator (tree->generator (build 10))))
    (let loop ((sum 0)) (let ((value (generator))) (if value (loop (+ sum value)) sum)))))
(section "prompts"
  (let loop ((i 0) (sum 0))
    (if (= i (* scale 20000))
        sum
        (loop (+ i 1)
              (+ sum (% (+ 1 (abort (list i 2)))
                        (lambda (k values) (k (cadr values)))))))))
(section "deep recursion"
  (let deep ((n 200000)) (if (= n 0) 0 (+ 1 (deep (- n 1))))))
(section "exceptions"
  (fold + 0 (map (lambda (i) (catch 'test (lambda () (throw 'test i (make-string 20 #\x)))
                                    (lambda (key i s) (+ i (string-length s)))))
                 (iota (* scale 5000)))))

;; Foreign memory with finalizers, pointers into bytevectors.
(section "foreign"
  (let loop ((i 0) (sum 0))
    (if (= i (* scale 5000))
        sum
        (let* ((b (make-bytevector 64 (modulo i 256))) (p (bytevector->pointer b 8)))
          (loop (+ i 1) (+ sum (bytevector-u8-ref (pointer->bytevector p 8) 0)))))))

;; Threads that allocate, exit and are made again; futures and parallel maps.
(section "threads"
  (let ((mutex (make-mutex)) (total 0))
    (for-each join-thread
              (map (lambda (i)
                     (call-with-new-thread
                      (lambda ()
                        (do ((j 0 (+ j 1))) ((= j (* scale 10)))
                          (let ((n (count-nodes (build 11))))
                            (with-mutex mutex (set! total (+ total n))))))))
                   (iota 4)))
    total))
(section "thread churn"
  (fold + 0 (map (lambda (i) (join-thread (call-with-new-thread
                                           (lambda () (length (make-list (+ i 1000) i))))))
                 (iota (* scale 100)))))
(section "parallel map"
  (fold + 0 (par-map (lambda (i) (count-nodes (build 8))) (iota (* scale 100)))))
(section "queue"
  (let ((mutex (make-mutex)) (ready (make-condition-variable)) (queue '()) (n (* scale 2000)))
    (let ((consumer (call-with-new-thread
                     (lambda ()
                       (let loop ((left n) (sum 0))
                         (if (= left 0)
                             sum
                             (loop (- left 1)
                                   (+ sum (with-mutex mutex
                                            (while (null? queue) (wait-condition-variable ready mutex))
                                            (let ((item (car queue)))
                                              (set! queue (cdr queue))
                                              (vector-ref item 0)))))))))))
      (do ((i 0 (+ i 1))) ((= i n))
        (with-mutex mutex
          (set! queue (cons (make-vector 10 i) queue))
          (signal-condition-variable ready)))
      (join-thread consumer))))

;; Compilation at run time makes code objects.
(section "compile"
  (fold + 0 (map (lambda (i) ((eval `(lambda (x) (let loop ((n x)) (if (= n 0) ,i (loop (- n 1)))))
                                    (interaction-environment)) 10))
                 (iota 200))))

(section "statistics"
  (let ((stats (gc-stats)))
    (every (lambda (key) (number? (assq-ref stats key)))
           '(gc-time-taken heap-size heap-free-size heap-total-allocated gc-times))))
