// `gleaner symbolize`: names and lines for addresses in files of code, for the reports of
// libgleaner_malloc.so (malloc/symbols.h).
#pragma once

// Reads from standard input, any number of times: a line "object PATH", then addresses in that
// object as its file has them, in hexadecimal, one a line. Writes to standard output, for each
// address: a line "FUNCTION<tab>LOCATION" for the function that contains it and for each function
// that this one is inlined in, innermost first, then an empty line. Writes "end" after the last
// address. Either text may be empty. Returns the exit status: 2, after a message, if the input has
// another form.
int Symbolize();
