;; Trees and tables that escape from the regions that Stalin's analysis finds, so that the collector has
;; to find their ends.
(define (make-table n) (make-vector n '()))
(define trees (make-table 64))
(define (build depth)
  (if (= depth 0) '() (cons (build (- depth 1)) (build (- depth 1)))))
(define (count tree)
  (if (null? tree) 1 (+ 1 (+ (count (car tree)) (count (cdr tree))))))
(define (fill i n sum)
  (if (= i n)
      sum
      (let ((k (remainder (* i 29) 64)))
        (vector-set! trees k (build (+ 8 (remainder i 7))))
        (fill (+ i 1) n (+ sum (count (vector-ref trees (remainder (* i 31) 64))))))))
(display (fill 0 3000 0)) (newline)

(define strings (make-table 1000))
(define (fill-strings i n)
  (if (< i n)
      (begin
        (vector-set! strings (remainder (* i 7) 1000)
                     (cons (string-append "string " (number->string i))
                           (let ((old (vector-ref strings (remainder i 1000))))
                             (if (= (remainder i 50) 0) '() old))))
        (fill-strings (+ i 1) n))))
(fill-strings 0 200000)
(define (total i sum)
  (if (= i 1000)
      sum
      (total (+ i 1)
             (let loop ((l (vector-ref strings i)) (sum sum))
               (if (null? l) sum (loop (cdr l) (+ sum (string-length (car l)))))))))
(display (total 0 0)) (newline)

(define closures (make-table 100))
(define (fill-closures i n)
  (if (< i n)
      (begin
        (vector-set! closures (remainder i 100) (list (lambda (x) (+ x i))))
        (fill-closures (+ i 1) n))))
(fill-closures 0 300000)
(display ((car (vector-ref closures 7)) 1)) (newline)
