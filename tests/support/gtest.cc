// Nothing: what is compiled are the headers that GoogleTest programs share (CMakeLists.txt).
