package markdown

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConstructs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"a paragraph of two lines", "one\n  two", "<p>one\ntwo</p>"},
		{"line breaks", "one  \ntwo\\\nthree", "<p>one<br>\ntwo<br>\nthree</p>"},
		{"headings", "# One #\n###### Six\n#no", "<h1>One</h1>\n<h6>Six</h6>\n<p>#no</p>"},
		{"headings that are underlined", "One\n===\nTwo\n--", "<h1>One</h1>\n<h2>Two</h2>"},
		{"rules", "---\n* * *\n__", "<hr>\n<hr>\n<p>__</p>"},
		{"emphasis", "*a* _b_ **c** __d__ ***e*** ~~f~~ ~g~", "<p><em>a</em> <em>b</em> <strong>c</strong> <strong>d</strong> <em><strong>e</strong></em> <del>f</del> <del>g</del></p>"},
		{"what is not emphasis", "a * b * c snake_case_name 2*3*4 **open", "<p>a * b * c snake_case_name 2<em>3</em>4 **open</p>"},
		{"emphasis in emphasis", "**a *b* c** *d **e***", "<p><strong>a <em>b</em> c</strong> <em>d <strong>e</strong></em></p>"},
		{"what is opened inside and never ends", "*a **b* ~c **d~", "<p>*a *<em>b</em> <del>c **d</del></p>"},
		{"delimiters inside words", "*a**b* **a*b*c**", "<p><em>a**b</em> <strong>a<em>b</em>c</strong></p>"},
		{"code", "`a<b` ``x ` y`` `` ` `` `open", "<p><code>a&lt;b</code> <code>x ` y</code> <code>`</code> `open</p>"},
		{"no emphasis in code", "`*a*` *`b`*", "<p><code>*a*</code> <em><code>b</code></em></p>"},
		{"fenced code", "```go\nif a < b {\n\n}\n```\nafter", "<pre><code>if a &lt; b {\n\n}\n</code></pre>\n<p>after</p>"},
		{"a fence that is longer, and one without end", "~~~~\n~~~\n~~~~\n```\nx", "<pre><code>~~~\n</code></pre>\n<pre><code>x\n</code></pre>"},
		{"indented code", "    a\n\n\tb\nc", "<pre><code>a\n\nb\n</code></pre>\n<p>c</p>"},
		{"a list", "- a\n- b\n  more\n* c", "<ul>\n<li>a</li>\n<li>b\nmore</li>\n</ul>\n<ul>\n<li>c</li>\n</ul>"},
		{"a numbered list", "3. a\n4. b", "<ol start=\"3\">\n<li>a</li>\n<li>b</li>\n</ol>"},
		{"lists in lists", "1. a\n   - b\n     - c\n2. d", "<ol>\n<li>a<ul>\n<li>b<ul>\n<li>c</li>\n</ul>\n</li>\n</ul>\n</li>\n<li>d</li>\n</ol>"},
		{"a list with blank lines has paragraphs", "- a\n\n- b\n\n  c", "<ul>\n<li><p>a</p>\n</li>\n<li><p>b</p>\n<p>c</p>\n</li>\n</ul>"},
		{"code in a list", "- a\n  ```\n  x\n\n  y\n  ```\n- b", "<ul>\n<li>a<pre><code>x\n\ny\n</code></pre>\n</li>\n<li>b</li>\n</ul>"},
		{"tasks", "- [ ] a\n- [x] b\n- [X] c\n- [y] d", `<ul>` + "\n" + `<li><input type="checkbox" disabled> a</li>` + "\n" + `<li><input type="checkbox" disabled checked> b</li>` +
			"\n" + `<li><input type="checkbox" disabled checked> c</li>` + "\n<li>[y] d</li>\n</ul>"},
		{"a list ends a paragraph, a number does not", "a\n- b\n\nin\n1984. c", "<p>a</p>\n<ul>\n<li>b</li>\n</ul>\n<p>in\n1984. c</p>"},
		{"quotes", "> a\nb\n> > c\n\nd", "<blockquote>\n<p>a\nb</p>\n<blockquote>\n<p>c</p>\n</blockquote>\n</blockquote>\n<p>d</p>"},
		{"alerts", "> [!WARNING]\n> careful", "<blockquote>\n<p><strong>Warning</strong></p>\n<p>careful</p>\n</blockquote>"},
		{"a table", "| a | b |\n|:--|--:|\n| `x` | y \\| z | w |\n| 1\n\nafter", "<table>\n<thead>\n<tr><th align=\"left\">a</th><th align=\"right\">b</th></tr>\n</thead>\n<tbody>\n" +
			"<tr><td align=\"left\"><code>x</code></td><td align=\"right\">y | z</td></tr>\n<tr><td align=\"left\">1</td><td align=\"right\"></td></tr>\n</tbody>\n</table>\n<p>after</p>"},
		{"a table below a paragraph, without bars outside", "x\na|b\n:-:|-\n1|2", "<p>x</p>\n<table>\n<thead>\n<tr><th align=\"center\">a</th><th>b</th></tr>\n</thead>\n<tbody>\n<tr><td align=\"center\">1</td><td>2</td></tr>\n</tbody>\n</table>"},
		{"what is not a table", "a|b\n-", "<h2>a|b</h2>"},
		{"links", `[a *b*](https://x.org/?a=1&b=2 "title") [c](<http://y.org>) [d](e) [f]`, "<p>" + to("https://x.org/?a=1&amp;b=2", "a <em>b</em>") + " " + to("http://y.org", "c") + " d [f]</p>"},
		{"parentheses in links", "[a](https://x.org/a_(b)) c)", "<p>" + to("https://x.org/a_(b)", "a") + " c)</p>"},
		{"addresses", "<https://a.org/b> see https://x.org/y_(z). (www.c.org) xhttps://d.org", "<p>" + to("https://a.org/b", "https://a.org/b") + " see " + to("https://x.org/y_(z)", "https://x.org/y_(z)") +
			". (" + to("https://www.c.org", "www.c.org") + ") xhttps://d.org</p>"},
		{"images are links", "![the logo](https://x.org/a.png) ![](https://x.org/b.png) ![c](d.png)", "<p>" + to("https://x.org/a.png", "the logo") + " " + to("https://x.org/b.png", "image") + " c</p>"},
		{"an image in a link", "[![passing](https://x.org/a.svg)](https://x.org/run)", "<p>" + to("https://x.org/run", "passing") + "</p>"},
		{"an image that is part of the text", "![a\"b](data:image/png;base64,iVBO)", `<p><img src="data:image/png;base64,iVBO" alt="a&#34;b"></p>`},
		{"escapes", `\*a\* \<b> \\ \q`, `<p>*a* &lt;b&gt; \ \q</p>`},
		{"entities", "&amp; &#10003; &#x2713; &copy; &no; & a&b", "<p>&amp; &#10003; &#x2713; &copy; &no; &amp; a&amp;b</p>"},
		{"emoji", ":white_check_mark: :x: :unknown: 12:30:45", "<p>✅ ❌ :unknown: 12:30:45</p>"},
		{"HTML in text", "H<sub>2</sub>O <kbd>Ctrl</kbd><br/>x <B>b</B>", "<p>H<sub>2</sub>O <kbd>Ctrl</kbd><br>x <b>b</b></p>"},
		{"details with Markdown inside", "<details open><summary>More &amp; <i>more</i></summary>\n\n- a\n\n</details>\n\nend", "<details open><summary>More &amp; <i>more</i></summary>\n<ul>\n<li>a</li>\n</ul>\n</details>\n<p>end</p>"},
		{"the HTML of @actions/core", `<h1>T</h1>` + "\n" + `<table><tr><th colspan="2" style="x">a</th></tr><tr><td>1</td><td>2</td></tr></table>` + "\n" + `<pre lang="js"><code>a && b</code></pre>` + "\n" +
			`<img src="https://x.org/i.png" alt="pic" width="32">` + "\n" + `<a href="https://x.org">y</a>` + "\n<hr>",
			`<h1>T</h1>` + "\n" + `<table><tr><th colspan="2">a</th></tr><tr><td>1</td><td>2</td></tr></table>` + "\n" + `<pre><code>a &amp;&amp; b</code></pre>` + "\n" + to("https://x.org/i.png", "pic") + "\n" + to("https://x.org", "y") + "\n<hr>"},
		{"preformatted text with blank lines", "<pre>\na\n\n*b*\n</pre>\n*c*", "<pre>\na\n\n*b*\n</pre>\n<p><em>c</em></p>"},
		{"comments are gone", "a <!-- *x* --> b\n\n<!-- one\n\ntwo -->\nc", "<p>a  b</p>\n\n<p>c</p>"},
		{"nothing", " \n\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, strings.TrimSpace(HTML(c.text))); diff != "" {
				t.Errorf("%q (-want +got):\n%s", c.text, diff)
			}
		})
	}
}

// to is a link as it is rendered.
func to(target, content string) string {
	return `<a href="` + target + `" rel="noopener noreferrer nofollow" target="_blank">` + content + "</a>"
}

func TestHostileText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"a script", "<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"},
		{"a script in a block of HTML", "<div><script src=x></script></div>", "<div>&lt;script src=x&gt;&lt;/script&gt;</div>"},
		{"event handlers and styles", `<b onclick="alert(1)" style="x" id=y class=z>a</b>`, "<p><b>a</b></p>"},
		{"the end of the place it is in", "</template></script></textarea><svg/onload=x>", "<p>&lt;/template&gt;&lt;/script&gt;&lt;/textarea&gt;&lt;svg/onload=x&gt;</p>"},
		{"links that run code", "[a](javascript:alert(1)) [b](JaVaScRiPt:x) [c](data:text/html,x) [d](java&#115;cript:x) [e](//x.org) <javascript:x>", "<p>a b c d e &lt;javascript:x&gt;</p>"},
		{"HTML links that run code", "<a href='javascript:x'>a</a> <a href=\" https://x.org\">b</a> <a HREF=vbscript:x href=https://y.org>c</a>", "<p><a>a</a> <a>b</a> <a>c</a></p>"},
		{"images that run code", `<img src=x onerror=alert(1)> ![a](javascript:x) ![b](data:text/html;base64,PHN2Zz4=)`, "<p>image a b</p>"},
		{"an address that leaves its attribute", `[a](https://x.org/"onclick="x) https://x.org/"onclick=x <https://x.org/"onclick=x>`, "<p>" + to("https://x.org/&#34;onclick=&#34;x", "a") + " " +
			to("https://x.org/", "https://x.org/") + `&#34;onclick=x ` + to("https://x.org/&#34;onclick=x", "https://x.org/&#34;onclick=x") + "</p>"},
		{"an alternative text that leaves its attribute", `<img src="data:image/png;base64,A" alt='"><script>' width="1 onload=x" height="20px">`, `<p><img src="data:image/png;base64,A" alt="&#34;&gt;&lt;script&gt;" height="20"></p>`},
		{"tags without end", "<details><summary>a\n\n<table><tr><td>b", "<details><summary>a\n<table><tr><td>b\n</td></tr></table></summary></details>"},
		{"ends without a beginning", "</details></div> a</b>", "a"},
		{"tags that cross", "**<b>a** b</b>", "<p><strong><b>a</b></strong> b</p>"},
		{"links in links", `<a href="https://a.org">x <a href="https://b.org">y</a> z</a>`, "<p>" + strings.TrimSuffix(to("https://a.org", "x y z"), "") + "</p>"},
		{"a box of one's own", `<input type="text" onfocus=x autofocus><form action=x>`, "<p>&lt;input type=&#34;text&#34; onfocus=x autofocus&gt;&lt;form action=x&gt;</p>"},
		{"half a tag", `<b title="x`, "<p>&lt;b title=&#34;x</p>"},
		{"a comment without end", "a <!-- b\n\n<!-- c\n\nd", "<p>a &lt;!-- b</p>\n&lt;!-- c\n\nd"},
		{"what is not text", "a\x00b\xffc\r\nd", "<p>a\uFFFDb\uFFFDc\nd</p>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := strings.TrimSpace(HTML(c.text))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", c.text, diff)
			}
			checkSafe(t, c.text, got)
		})
	}
}

// checkSafe reads the result as strictly as possible: tags of the list, balanced, with attributes of the list.
func checkSafe(t *testing.T, text, got string) {
	t.Helper()
	var open []string
	for rest := got; ; {
		at := strings.IndexByte(rest, '<')
		if at < 0 {
			break
		}
		end := strings.IndexByte(rest[at:], '>')
		if end < 0 {
			t.Fatalf("%q: a tag has no end: %q", text, rest[at:])
		}
		whole := rest[at+1 : at+end]
		rest = rest[at+end+1:]
		if name, closing := strings.CutPrefix(whole, "/"); closing {
			if len(open) == 0 || open[len(open)-1] != name {
				t.Fatalf("%q: </%s> closes %q in %q", text, name, open, got)
			}
			open = open[:len(open)-1]
			continue
		}
		name, attrs, _ := strings.Cut(whole, " ")
		if _, known := tags[name]; !known {
			t.Fatalf("%q: the tag %q in %q", text, whole, got)
		}
		for attrs != "" {
			key, value, more := "", "", ""
			if i := strings.IndexAny(attrs, "= "); i < 0 || attrs[i] == ' ' {
				key, attrs, _ = strings.Cut(attrs, " ")
			} else {
				key = attrs[:i]
				var ok bool
				if value, more, ok = strings.Cut(strings.TrimPrefix(attrs[i+1:], `"`), `"`); !ok {
					t.Fatalf("%q: the attributes of %q", text, whole)
				}
				attrs = strings.TrimPrefix(more, " ")
			}
			if !strings.Contains(" href rel target src alt width height open align colspan rowspan start type disabled checked ", " "+key+" ") {
				t.Fatalf("%q: the attribute %q of %q", text, key, whole)
			}
			if key == "href" && webAddress(value) == "" || key == "src" && !strings.HasPrefix(value, "data:image/") {
				t.Fatalf("%q: it leads to %q", text, value)
			}
		}
		if !isVoid(name) {
			open = append(open, name)
		}
	}
	if len(open) > 0 {
		t.Fatalf("%q: %q have no end in %q", text, open, got)
	}
}

// No text makes the time grow with the square of its size: with -v this says how long each takes.
func TestTextThatIsMadeToBeSlow(t *testing.T) {
	t.Parallel()
	const size = 1 << 15
	for _, piece := range []string{
		"[", "](", "[a](", "[a](b", "![", "*", "**a ", "*a _b ", "a**b", "_", "`", "``a```", "<", "<b ", "<b a=\"", "<b>", "</b>", "<i></b>", "<!--", "<!-- -->", "<a href=",
		"> ", ">", "- ", "-\n", "- a\n", " - a\n", "1. ", "|", "|-", "a|b\n-|-\n", "a\n\n", "\n", "~~~\n", "#", "&", "&a;", ":", ":x", "https://a)", "https://", ")", "\\", "    a\n\n", "é", "<details>\n\n", "***a***",
		"[a](https://x.org) ", "<pre>\n", "  \n", "- a\n\n", "x\n> y\n",
	} {
		began := time.Now()
		text := strings.Repeat(piece, size/len(piece))
		got := HTML(text)
		checkSafe(t, piece, got)
		checkSafe(t, piece, HTML("https://x"+text[:size/8]+"a)]`"))
		t.Logf("%-12q %v, %d bytes", piece, time.Since(began).Round(time.Millisecond), len(got))
	}
}

func FuzzHTML(f *testing.F) {
	for _, seed := range []string{
		"# a\n- b\n  1. [c](https://d \"e\")\n> f\n```\ng\n```\n|h|\n|-|\n|i|", "<details><summary>a</summary>\n\n**b <i>c</i>**\n", "*a **b _c ~~d~~", "<img src=x><a href=javascript:x>",
		"<!-- a\n-->\n<pre>\n</pre>", "&#x41;&\\<b>``", "<td align=center colspan=9999>", "- [x] a\n\n      b\n\t- c",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := HTML(text)
		checkSafe(t, text, got)
	})
}
