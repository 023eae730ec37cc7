// `gleaner symbolize`: names and lines for addresses in files of code, for the reports of
// libgleaner_malloc.so (malloc/symbols.h).
#pragma once

// From standard input: "object PATH", then addresses in that object as its file has them, in
// hexadecimal, one a line; any number of times. To standard output, for each address: a line
// "FUNCTION<tab>LOCATION" for the function that it is in and for each that this one is inlined in,
// innermost first, and an empty line; "end" after the last. Either text may be empty. Returns the
// exit status: 2, after a message, if the input is something else.
int Symbolize();
