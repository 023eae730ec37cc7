[= AutoGen5 template h c =]
[= (define total 0)
   (define (depth n) (if (= n 0) '() (cons (depth (- n 1)) (depth (- n 1)))))
   (define (size t) (if (null? t) 1 (+ 1 (size (car t)) (size (cdr t))))) =][=
CASE (suffix) =][=
== h =]
#define [=(string-upcase (get "prefix"))=]_RECORDS [=(count "record")=]
[= FOR record =]struct [=prefix=]_[=name=] {
[= FOR field =]  [=type=] [=(string-append (get "name") "_" (number->string (for-index)))=];
[= ENDFOR field =]  int end[ [=(set! total (+ total (string->number (get "value"))))
  (size (depth 7))=] ];
};
[= ENDFOR record =]/* [=(number->string total)=] */
[= == c =]
#include "[=prefix=].h"
[= FOR record =][= IF (> (string->number (get "value")) 500) =]/* [=(c-string (get "text"))=] */
int [=name=] = [=(apply + (map (lambda (x) (* x x)) (list 1 2 (string->number (get "value")))))=];
[= ELSE =]const char [=name=][] = [=(kr-string (string-append (get "text") " " (get "value")))=];
[= ENDIF =][= ENDFOR record =][= ESAC =]
