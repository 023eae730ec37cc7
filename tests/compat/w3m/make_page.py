"""Writes a large HTML page: tables in tables, lists, links, forms, entities, in many languages."""
import sys

WORDS = ("garbage collector page mark sweep root finalizer Müll Sammler Seite 記憶 管理 回収 мусор сборщик "
         "λ-Kalkül naïve cœur &amp; &lt;tag&gt; &eacute; &#8364; &nbsp;").split()


def sentence(seed, length):
    return " ".join(WORDS[(seed * 31 + i * i * 7) % len(WORDS)] for i in range(length))


def main():
    rows = int(sys.argv[1])
    print("<!DOCTYPE html><html><head><meta charset=utf-8><title>Test</title></head><body>")
    for part in range(rows // 20):
        print(f"<h2 id=p{part}>{sentence(part, 4)}</h2><p>{sentence(part, 120)}</p>")
        print("<table border=1><tr><th>number<th>words<th>nested</tr>")
        for row in range(20):
            inner = "".join(f"<td>{row * k}</td><td align=right>{sentence(k, 2)}</td>" for k in range(3))
            print(f"<tr><td>{part * 20 + row}</td><td rowspan=1>{sentence(row, 9)}</td>"
                  f"<td><table border><tr>{inner}</tr></table></td></tr>")
        print("</table><ul>" + "".join(f"<li><a href='#p{i}'>{sentence(i, 3)}</a><ol><li>{sentence(i, 5)}"
                                       f"<li><b>{i}</b></ol>" for i in range(10)) + "</ul>")
        print("<form action=/x><input name=a value=b><select name=s>" + "".join(
            f"<option>{sentence(i, 1)}" for i in range(12)) + "</select><textarea>x</textarea></form>")
        print(f"<pre>{sentence(part, 30)}\n\t{sentence(part + 1, 10)}</pre><hr>")
    print("</body></html>")


if __name__ == "__main__":
    main()
