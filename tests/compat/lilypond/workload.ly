\version "2.24.0"
% A score of four staves made by Scheme: many notes, slurs, dynamics, lyrics, a book with a table.
#(define (make-voice steps length transposition)
   (make-sequential-music
    (map (lambda (i)
           (let ((pitch (ly:make-pitch (+ transposition (if (even? i) 0 1)) (modulo (* i steps) 7)
                                       (if (= 0 (modulo i 11)) 1/2 0))))
             (make-music 'NoteEvent
                         'duration (ly:make-duration (if (= 0 (modulo i 3)) 3 2) (if (= 0 (modulo i 3)) 0 0))
                         'pitch pitch
                         'articulations (if (= 0 (modulo i 5))
                                            (list (make-music 'ArticulationEvent 'articulation-type 'staccato))
                                            '()))))
         (iota length))))
\header { title = "Workload" tagline = ##f }
music = #(make-voice 3 400 0)
\score {
  <<
    \new Staff { \clef treble \key d \major #(make-voice 2 400 0) }
    \new Staff { \clef treble #(make-voice 3 400 0) }
    \new PianoStaff <<
      \new Staff { \clef alto #(make-voice 4 400 -1) }
      \new Staff { \clef bass #(make-voice 5 400 -2) }
    >>
  >>
  \layout { }
  \midi { }
}
\markup \column { "ends" \italic "here" \bold { a b c } }
