-- Gröbner bases, resolutions, big integers, hash tables, strings, tasks on threads.
R = ZZ/101[a..h, MonomialOrder => GRevLex];
I = ideal(a+b+c+d+e+f, a*b+b*c+c*d+d*e+e*f+f*a, a*b*c+b*c*d+c*d*e+d*e*f+e*f*a+f*a*b,
    a*b*c*d+b*c*d*e+c*d*e*f+d*e*f*a+e*f*a*b+f*a*b*c, a*b*c*d*e+b*c*d*e*f+c*d*e*f*a+d*e*f*a*b+e*f*a*b*c+f*a*b*c*d,
    a*b*c*d*e*f-h^6);
G = gb I;
print numgens source gens G;
print hilbertSeries(I, Order => 6);
S = QQ[x_0..x_5];
m = matrix table(3, 4, (i, j) -> x_((i+j) % 6) + (i*j+1) * x_((2*i+3*j) % 6));
J = minors(2, m);
C = res J;
print betti C;
print degree J;
print primaryDecomposition ideal(x_0*x_1, x_1*x_2, x_0*x_2^2 - x_1*x_3*x_2);
T = new MutableHashTable;
for i to 60000 do T#(toString i) = {i, i^2, toString(i^3)};
s = 0; scan(keys T, k -> s = s + T#k#1);
print s;
print (# toString (3000!));
L = apply(40, i -> det matrix table(9, 9, (p, q) -> ((p+1)*(q+2)*(i+3)) % 97 / (q+1)));
print take(L, 3);
f = n -> if n < 2 then n else f(n-1) + f(n-2);
print f 21;
tree = d -> if d == 0 then {} else {tree(d-1), tree(d-1)};
count' = t -> if #t == 0 then 1 else 1 + count' t#0 + count' t#1;
print sum apply(12, i -> count' tree 12);
allowableThreads = 4;
tasks = apply(4, i -> schedule(() -> sum apply(30000, j -> # toString (j^5 + i))));
print apply(tasks, t -> (while not isReady t do nanosleep 1000000; taskResult t));
collectGarbage();
print (#apply(100000, i -> {i}));
