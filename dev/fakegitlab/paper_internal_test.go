package fakegitlab

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// printAll writes parts on paper and returns all that is seen in the end.
func printAll(parts ...string) string {
	var p paper
	all, last := "", ""
	for _, part := range parts {
		now := p.write([]byte(part))
		all, last = all+now.Lines, now.Last
	}
	return all + last
}

func TestWhatATerminalIsSentOnPaper(t *testing.T) {
	long := strings.Repeat("x", columns)
	for name, tc := range map[string]struct{ sent, seen string }{
		"lines":                               {"one\r\ntwo\r\n$ ", "one\ntwo\n$ "},
		"a line without a return":             {"one\ntwo", "one\ntwo"},
		"a line that is written again":        {"50%\r100%\r\n", "100%\n"},
		"a part of a line that is":            {"hello world\rHELLO", "HELLO world"},
		"a character that is taken back":      {"lx\b \bs\r\n", "ls\n"},
		"backspaces at the beginning":         {"\b\b\bx", "x"},
		"a tab":                               {"a\tb\r\n", "a       b\n"},
		"a tab at the end of a line":          {long[:79] + "\tb", long[:79] + "b"},
		"colours":                             {"\x1b[01;32mgreen\x1b[0m\x1b[K\r\n", "green\n"},
		"a prompt of bash":                    {"\x1b[?2004h\x1b]0;root@host: ~\x07root@host:~# ls\r\n\x1b[?2004l\r", "root@host:~# ls\n"},
		"a title that ends otherwise":         {"\x1b]0;title\x1b\\x", "x"},
		"a title that does not end":           {"\x1b]0;title\r\nnext", "\nnext"},
		"a message to a device":               {"\x1bP1$r0m\x1b\\x\x1b_hidden\x1b\\y", "xy"},
		"a character set":                     {"\x1b(Bx\x1b)0y", "xy"},
		"the keypad":                          {"\x1b=x\x1b>y", "xy"},
		"to the end of the line":              {"rm -rf\r\x1b[2C\x1b[K", "rm"},
		"to the beginning of the line":        {"abcd\x1b[2D\x1b[1Kx\r\n", "  xd\n"},
		"all of the line":                     {"abcd\x1b[2Kx", "    x"},
		"an insertion":                        {"ad\b\x1b[2@bc", "abcd"},
		"an insertion before a full line":     {long + "\r\x1b[1@y", "y" + long[1:]},
		"a deletion":                          {"abcd\r\x1b[2P", "cd"},
		"a deletion of more than there is":    {"abcd\x1b[2D\x1b[99P", "ab"},
		"blanks":                              {"abcd\r\x1b[2X", "  cd"},
		"a column":                            {"abcd\x1b[2Gx", "axcd"},
		"a column beyond the line":            {"\x1b[3Gx", "  x"},
		"beyond the last column":              {"\x1b[999999999999999999999999Cx\x1b[500Gy", strings.Repeat(" ", 79) + "y"},
		"the whole screen":                    {"$ \x1b[H\x1b[2J$ ", "$ "},
		"drawings":                            {"\x1b[?1049h\x1b[5;10Htop\x1b[?25l", "top"},
		"a line that is as wide as the paper": {long + "\r\nnext", long + "\nnext"},
		"a line that is wider":                {long + "yz\r\n", long + "\nyz\n"},
		"what readline does at the last one":  {long + " \rz", long + "\nz"},
		"a sequence with other parameters":    {"ab\r\x1b[1 @x", "xb"},
		"an unknown sequence":                 {"\x1b[5~x\x1b[1;2;3$zy\x1b[>c", "xy"},
		"a sequence within a sequence":        {"\x1b[3\x1b[1mx", "x"},
		"a sequence that a character breaks":  {"\x1b[3éx", "x"},
		"characters of other scripts":         {"größe 日本\r\n", "größe 日本\n"},
		"not UTF-8":                           {"a\xffb", "a\ufffdb"},
		"what is not seen, or turns text":     {"a\x00\x07\u202eb\u200b\u2028\u0085", "ab"},
		"HTML":                                {"<script>alert(1)</script>&lt;\r\n", "<script>alert(1)</script>&lt;\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if seen := printAll(tc.sent); seen != tc.seen {
				t.Errorf("%q is seen, want %q", seen, tc.seen)
			}
			if seen := printAll(strings.Split(tc.sent, "")...); seen != tc.seen {
				t.Errorf("a character at a time, %q is seen, want %q", seen, tc.seen)
			}
		})
	}
}

// FuzzPaper says that whatever is sent, in whatever parts, is seen as lines of a bounded length, which hold nothing but characters.
func FuzzPaper(f *testing.F) {
	f.Add([]byte("$ \x1b[1;31mré\x1b[0m\x1b]0;x\x07\x1b[5@\x1b[3P\x1b[2X\x1b[9C\x1b[1K\tx\b\r\n"), 3)
	f.Fuzz(func(t *testing.T, sent []byte, at int) {
		seen := printAll(string(sent))
		at = min(max(at, 0), len(sent))
		if again := printAll(string(sent[:at]), string(sent[at:])); again != seen {
			t.Errorf("in two parts %q is seen, and in one %q", again, seen)
		}
		for line := range strings.Lines(seen) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > columns || strings.ContainsFunc(line, unicode.IsControl) || !utf8.ValidString(line) {
				t.Errorf("a line of %d characters: %q", n, line)
			}
		}
	})
}
