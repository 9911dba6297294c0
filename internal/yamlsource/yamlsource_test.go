package yamlsource_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/mask/masktest"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
)

func TestScalars(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"true", "true"}, {"FALSE", "false"}, {"yes", `"yes"`}, {"on", `"on"`}, {"~", "null"}, {"", "null"}, {"null", "null"},
		{"2020-01-01", `"2020-01-01"`}, {"2020-01-01T10:00:00Z", `"2020-01-01T10:00:00Z"`}, {"12:30", `"12:30"`},
		{"1", "1"}, {"-7", "-7"}, {"+7", "7"}, {"1.50", "1.5"}, {"1e3", "1000"}, {".5", "0.5"}, {"-0", "0"},
		{"0x1F", "31"}, {"0o17", "15"}, {"010", "8"}, {"08", "8"}, {"0b11", "3"}, {"1_000", "1000"}, {"1.2.3", `"1.2.3"`},
		{"9223372036854775807", "9223372036854775807"}, {"18446744073709551615", "18446744073709551615"},
		{"-9223372036854775808", "-9223372036854775808"}, {"9007199254740993", "9007199254740993"},
		{"123456789012345678901234567890", "1.2345678901234568e+29"},
		{"!!str 1", `"1"`}, {"!!float 1", "1"}, {"! 1", `"1"`}, {"'1'", `"1"`}, {`"a\tb"`, `"a\tb"`}, {"<<", `"<<"`},
		{"|\n  a\n  b\n", `"a\nb\n"`}, {">-\n  a\n  b\n", `"a b"`}, {"[1, [a]]", `[1,["a"]]`}, {"{b: 1, a: {}}", `{"a":{},"b":1}`},
	} {
		t.Run(tt.text+" is "+tt.want, func(t *testing.T) {
			f := parse(t, "a: "+tt.text)
			if got := string(f.Documents[0].Get("a").Value().AppendJSON(nil)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func parse(t *testing.T, text string) *yamlsource.File {
	t.Helper()
	f, err := yamlsource.Parse("f.yml", []byte(text))
	if err == nil {
		err = f.Err()
	}
	if err != nil {
		t.Fatalf("parsing %q: %v", text, err)
	}
	return f
}

func TestDocuments(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"an empty text has none", "", nil},
		{"comments alone are none", "# nothing\n", nil},
		{"an empty document is null", "---\n---\na: 1", []string{"null", `{"a":1}`}},
		{"a text before the first marker is a document", "a: 1\n---\n", []string{`{"a":1}`, "null"}},
		{"CRLF ends lines", "a: 1\r\nb: |\r\n  x\r\n  y\r\n", []string{`{"a":1,"b":"x\ny\n"}`}},
		{"a byte order mark is skipped", "\uFEFFa: 1", []string{`{"a":1}`}},
		{"anchors end with their document", "a: &x 1\nb: *x\n---\nc: &x 2\nd: *x", []string{`{"a":1,"b":1}`, `{"c":2,"d":2}`}},
		{"an alias repeats a value", "a: &x {b: 1}\nc: *x", []string{`{"a":{"b":1},"c":{"b":1}}`}},
		{"a merge key adds what is not there", "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", []string{`{"a":{"b":1,"c":2},"d":{"b":1,"c":3}}`}},
		{"the first of several merged maps wins", "- &x {a: 1}\n- &y {a: 2, b: 2}\n- <<: [*x, *y]", []string{`[{"a":1},{"a":2,"b":2},{"a":1,"b":2}]`}},
		{"a quoted merge key is a key", "'<<': 1", []string{`{"<<":1}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, doc := range parse(t, tt.text).Documents {
				got = append(got, string(doc.Value().AppendJSON(nil)))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func problemsOf(text string) string {
	f, err := yamlsource.Parse("f.yml", []byte(text))
	if err == nil {
		err = f.Err()
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestProblems(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a duplicate key names both places", "a: 1\nb: 2\n'a': 3", `f.yml:3:1: the key "a" is already set on line 1`},
		{"all duplicate keys are told", "{a: 1, a: 2, a: 3}", "f.yml:1:8: the key \"a\" is already set on line 1\nf.yml:1:14: the key \"a\" is already set on line 1"},
		{"two merge keys", "- &a {}\n- {<<: *a, <<: *a}", `f.yml:2:12: the key "<<" is already set on line 2`},
		{"a map as a key", "{a: {{ b }: 1}}", "f.yml:1:6: a map cannot be a key"},
		{"null as a key", "~: 1", "f.yml:1:1: null cannot be a key"},
		{"merging a scalar", "a: {<<: 1}", "f.yml:1:9: << merges maps, not a number"},
		{"infinity", "a: .inf", "f.yml:1:4: .inf is not a number a step can use"},
		{"not a number", "a: .NaN", "f.yml:1:4: .NaN is not a number a step can use"},
		{"a tag that does not fit", "a: !!int x", "f.yml:1:10: x is not a number a step can use"},
		{"an unknown tag", "a: !foo x", "f.yml:1:4: the tag !foo is not supported here"},
		{"a binary tag", "a: !!binary eA==", "f.yml:1:4: the tag !!binary is not supported here"},
		{"a recursive alias", "a: &x [*x]", "f.yml:1:8: *x is inside the value that it repeats"},
		{"an unknown alias", "a: *x", "f.yml:1:4: *x has no anchor: there is no &x above it"},
		{"a tab as indentation", "a:\n\tb: 1", "f.yml:2:1: invalid YAML: a tab cannot indent"},
		{"an unclosed bracket", "a: [1, 2\n", "f.yml:1:4: the [ is never closed"},
		{"an unclosed brace", "a: {b: 1\n\n", "f.yml:1:4: the { is never closed"},
		{"an unclosed quote", "a: \"x\n", "f.yml:1:4: invalid YAML: the quoted text is never closed"},
		{"a colon too many", "a: b: c", "f.yml:1:5: invalid YAML: a : is not allowed here"},
		{"columns count characters", "é: ü: c", "f.yml:1:5: invalid YAML: a : is not allowed here"},
		{"invalid UTF-8", "a: 1\nb: \xff", "f.yml:2:4: the byte 0xFF is not valid UTF-8"},
		{"UTF-16", "\xff\xfea\x00", "f.yml: the file is in UTF-16"},
		{"a NUL", "a: é\x00", "f.yml:1:5: the control character U+0000 is not allowed in YAML"},
		{"a later byte order mark", "a: \uFEFF1", "f.yml:1:4: the control character U+FEFF is not allowed in YAML"},
		{"a file of something else", "\x7fELF\x02", "f.yml:1:1: the control character U+007F is not allowed in YAML"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, problemsOf(tt.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProblemIsRenderedWithItsLine(t *testing.T) {
	_, err := yamlsource.Parse("f.yml", []byte("a: 1\nrun: [${{ x }}]\n"))
	want := "error: invalid YAML: expected , or ] here\n  --> f.yml:2:8\n   |\n 2 | run: [${{ x }}]\n   |        ^\nhint: quote text that contains ${{ }}\n"
	if diff := cmp.Diff(want, diag.Of(err).Render()); diff != "" {
		t.Error(diff)
	}
}

func TestLocalTags(t *testing.T) {
	f, err := yamlsource.Parse("f.yml", []byte("a: !reference [b, c]"), "!reference")
	if err != nil || f.Err() != nil {
		t.Fatal(err, f.Err())
	}
	if n := f.Documents[0].Get("a"); n.Tag != "!reference" || len(n.Items) != 2 {
		t.Errorf("got tag %q and %d items", n.Tag, len(n.Items))
	}
}

func TestSpans(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        string // of the node "a", as line:column+length
	}{
		{"a plain scalar", "foo bar", "1:4+7"},
		{"a plain scalar before a comment", "foo # bar", "1:4+3"},
		{"a plain scalar of two lines", "foo \n  bar", "1:4+3"},
		{"characters, not bytes", "äöü", "1:4+3"},
		{"single quotes", "'it''s' # 'x'", "1:4+7"},
		{"double quotes", `"a\"b" # "`, "1:4+6"},
		{"a block's header", "|-  # comment\n  foo", "1:4+2"},
		{"a tag is not part of it", "!!str foo", "1:10+3"},
		{"nor is an anchor", "&x 'foo'", "1:7+5"},
		{"a value after its anchor's line", "&x\n  foo: 1", "2:3+3"},
		{"a missing value stands behind the colon", "", "1:3+1"},
		{"a flow map", "{b: 1}", "1:4+1"},
		{"a block map begins at its first key", "\n  b: 1", "2:3+1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := parse(t, "a: "+tt.value).Documents[0].Get("a").Span
			if got := fmt.Sprintf("%d:%d+%d", s.Line, s.Column, s.Length); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestPlacesInsideScalars looks for the letters "XYZ" in the text of a scalar and checks that their place in the source is
// where they are.
func TestPlacesInsideScalars(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"plain", "a: fööXYZ bar"},
		{"plain over two lines", "a: foo\n   bar XYZ"},
		{"single quotes", "a: 'it''s ''XYZ'"},
		{"double quotes", `a: "\"\\ \t\n\u00e4\x41é XYZ"`},
		{"double quotes over two lines", "a: \"x \\\n   y \\n\n\n  XYZ\""},
		{"a literal block", "a: | # comment\n    foo\n\n      XYZ\n"},
		{"a literal block with CRLF", "a: |\r\n  foo\r\n  bar XYZ\r\n"},
		{"a literal block with an indentation indicator", "a: |2-\n     foo\n   XYZ"},
		{"a folded block", "a: >-\n  foo bar\n  baz XYZ\n  end\n"},
		{"after a tag and an anchor", "a: !!str &x 'foo XYZ'"},
		{"after a byte order mark", "\uFEFFa: XYZ"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := parse(t, tt.text)
			n := f.Documents[0].Get("a")
			offset := len([]rune(n.Text[:strings.Index(n.Text, "XYZ")]))
			s := f.At(n, offset, 3)
			lines := strings.Split(strings.TrimPrefix(tt.text, "\uFEFF"), "\n")
			line := []rune(lines[s.Line-1])
			if got := string(line[s.Column-1 : s.Column-1+s.Length]); got != "XYZ" {
				t.Errorf("%s points at %q in %q", s, got, string(line))
			}
		})
	}
	t.Run("the end of the text", func(t *testing.T) {
		f := parse(t, "a: |\n  foo ${{\n\nb: 1")
		if s := f.At(f.Documents[0].Get("a"), 8, 1); s.Line != 2 || s.Column != 10 {
			t.Errorf("got %s, want 2:10", s)
		}
	})
}

func TestLimits(t *testing.T) {
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	merges := "- &m {"
	for i := range 3000 {
		merges += fmt.Sprintf("k%d: 1, ", i)
	}
	merges += "}\n" + strings.Repeat("- <<: *m\n", 3000)
	deep := "- &a0 x\n"
	for i := 1; i < 300; i++ {
		deep += fmt.Sprintf("- &a%d [*a%d]\n", i, i-1)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"a billion laughs", laughs, "more than 2000000 values"},
		{"a quadratic merge", merges, "more than 2000000 values"},
		{"a long text repeated", "- &a " + strings.Repeat("x", 1<<20) + "\n" + strings.Repeat("- *a\n", 100), "repeat more than 67108864 bytes"},
		{"a depth made of aliases", deep, "deeper than 100 levels"},
		{"a depth made of brackets", strings.Repeat("[", 5000), "deeper than 100 levels"},
		{"a depth made of indentation", indented(300), "deeper than 100 levels"},
		{"a depth made of dashes", strings.Repeat("- ", 5000), "deeper than 100 levels"},
		{"too many values", strings.Repeat("- 1\n", 2_000_001), "more than 2000000 values"},
		{"too many bytes", strings.Repeat("#\n", yamlsource.MaxSize/2+1), "the file has 67108866 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := problemsOf(tt.text); !strings.Contains(got, tt.want) {
				t.Errorf("got %.300q, want %q", got, tt.want)
			}
		})
	}
}

func indented(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestOnlyTheFirstProblemsAreShown(t *testing.T) {
	f, err := yamlsource.Parse("f.yml", []byte(strings.Repeat("- {a: 1, a: 2}\n", 250)))
	if err != nil {
		t.Fatal(err)
	}
	list := diag.Of(f.Err())
	if len(list) != yamlsource.MaxProblems+1 || list[0].Line != 1 {
		t.Fatalf("got %d diagnostics, the first on line %d", len(list), list[0].Line)
	}
	if got, want := list[len(list)-1].Message, "150 more problems are not shown"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAMistakeThatAliasesRepeatIsToldOnce(t *testing.T) {
	f := parse(t, "- &a 1\n- *a\n- *a")
	for _, item := range f.Documents[0].Items {
		f.Report(item.Span, "", "not 1")
	}
	if list := diag.Of(f.Err()); len(list) != 1 {
		t.Errorf("got %d diagnostics, want 1", len(list))
	}
}

// TestLargeFiles holds shapes that make careless code quadratic. It has no clock: a quadratic run would take hours.
func TestLargeFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, text := range map[string]string{
		"10,000 steps":              strings.Repeat("- name: build\n  script: |\n    echo "+strings.Repeat("hello ", 25)+"\n", 10000),
		"one line of 100,000 words": "[" + strings.Repeat("é, ", 100_000) + "]",
		"one scalar of 2 MB":        "a: \"" + strings.Repeat("é", 1_000_000) + "\"",
		"one block of 2 MB":         "a: |\n" + strings.Repeat("  echo hello\n", 160_000),
		"a map of 200,000 keys":     manyKeys(200_000),
		"comments between values":   strings.Repeat("- a\n# why\n", 40_000),
	} {
		t.Run(name, func(t *testing.T) { parse(t, text) })
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

func BenchmarkParse50000Steps(b *testing.B) {
	data := []byte(strings.Repeat("- name: build\n  script: |\n    echo "+strings.Repeat("hello ", 25)+"\n", 50000))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := yamlsource.Parse("f.yml", data); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a: 1", "- &a [*a]", "a: &x {b: 1}\nc: {<<: *x}", "a: |\n  x\n", "{a: .inf, a: 0x1}", "a: \"\\u0041\\\n b\"",
		"\xff", "\t", "%YAML 1.2\n---\n", "? a\n: b", "!!int x", "---\n---\n", "a: 'it''s'", "é: ü"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := yamlsource.Parse("f.yml", data)
		if err != nil {
			var list diag.List
			if !errors.As(err, &list) || len(list) != 1 {
				t.Fatalf("got %T %v, want a list of one", err, err)
			}
			_ = list.Render()
			return
		}
		for _, doc := range file.Documents {
			walk(t, file, doc)
			_ = doc.Value()
		}
		if err := file.Err(); err != nil {
			_ = diag.Of(err).Render()
		}
	})
}

func walk(t *testing.T, f *yamlsource.File, n *yamlsource.Node) {
	if n.Span.Line < 1 || n.Span.Column < 1 || n.Span.Length < 1 || n.Span.File == "" {
		t.Fatalf("node %+v has no place", n)
	}
	for i := range len([]rune(n.Text)) + 1 {
		if s := f.At(n, i, 2); s.Line < 1 || s.Column < 1 || s.Length < 1 {
			t.Fatalf("character %d of %q has no place", i, n.Text)
		}
		if i > 50 {
			break
		}
	}
	for _, item := range n.Items {
		walk(t, f, item)
	}
	for _, e := range n.Entries {
		walk(t, f, e.Key)
		walk(t, f, e.Value)
	}
}

func TestShortenShowsNoPartOfASecret(t *testing.T) { masktest.Shortens(t, 60, yamlsource.Shorten) }
