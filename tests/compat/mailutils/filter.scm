;; A user's filter in Scheme: counts words in tables until the collector has something to do.
(define table (make-hash-table))
(do ((i 0 (+ i 1))) ((= i 300000))
  (let ((key (string->symbol (number->string (modulo (* i 7919) 5003) 16))))
    (hashq-set! table key (cons i (list i (* i i))))))
(display (hash-fold (lambda (key value sum) (+ sum (car value))) 0 table) (current-error-port))
(newline (current-error-port))
(define (mailutils-check-message message) #f)
