# A package set in small: a fixed point of 1,500 packages with dependencies and overrides, long lists,
# strings with JSON and hashes, recursion. Everything is evaluated, nothing built.
let
  packages = 1500;
  rounds = 40;
  inherit (builtins) attrNames attrValues concatStringsSep elemAt filter foldl' fromJSON genList hashString
    length listToAttrs map mapAttrs sort stringLength substring toJSON;
  mod = a: b: a - b * (a / b);
  fix = f: let x = f x; in x;
  extend = base: overlay: self: let super = base self; in super // overlay self super;
  name = i: "package-${toString i}";

  base = self: listToAttrs (genList (i: {
    name = name i;
    value = rec {
      pname = name i;
      version = "${toString (mod i 9)}.${toString (mod (i * 7) 13)}";
      dependencies = map (k: self.${name (i / (k + 2))}) (genList (k: k) (if i == 0 then 0 else mod i 4));
      closure = 1 + foldl' (sum: d: sum + mod d.closure 1000) 0 dependencies;
      hash = substring 0 12 (hashString "sha256" "${pname}-${version}-${toString closure}");
      meta = { inherit pname version; description = concatStringsSep " " (genList (_: pname) 6); };
    };
  }) packages);

  overlay = round: self: super: mapAttrs (_: p: p // {
    version = "${p.version}.${toString round}";
    override = { inherit round; previous = p.version; };
  }) super;

  set = round: fix (foldl' extend base (genList (n: overlay (round + n)) 4));

  summary = round: let s = set round; in {
    count = length (attrNames s);
    closures = foldl' (sum: p: sum + p.closure) 0 (attrValues s);
    last = (s.${name (packages - 1)}).version;
    hashes = hashString "sha256" (concatStringsSep "," (map (p: p.hash) (attrValues s)));
    json = stringLength (toJSON (mapAttrs (_: p: p.meta) s));
    back = length (attrNames (fromJSON (toJSON (mapAttrs (_: p: p.meta) s))));
  };

  primes = n: filter (p: foldl' (ok: d: ok && (d * d > p || mod p d != 0)) true
    (genList (i: i + 2) (if p < 40 then p - 2 else 38))) (genList (i: i + 2) n);
  sorted = sort (a: b: a < b) (genList (i: mod (i * 48271) 65537) 20000);
in {
  summaries = map summary (genList (r: r) rounds);
  primes = length (primes 1500);
  sorted = map (elemAt sorted) [ 0 1 9999 19999 ];
  strings = stringLength (foldl' (s: i: s + toString i) "" (genList (i: i) 3000));
}
