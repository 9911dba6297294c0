package lastoutput_test

import (
	"io"
	"testing"

	"github.com/rungci/rung/internal/lastoutput"
)

func TestTheEndIsKept(t *testing.T) {
	b := lastoutput.Buffer{Max: 6}
	for _, c := range []struct{ write, want string }{{"", ""}, {"ab\n", "ab"}, {"cd", "ab\ncd"}, {"ef", "b\ncdef"}, {"a long line\n", "line"}, {"\xff", "line\n?"}} {
		if n, err := io.WriteString(&b, c.write); n != len(c.write) || err != nil {
			t.Errorf("%q: %d, %v", c.write, n, err)
		}
		if got := b.String(); got != c.want {
			t.Errorf("after %q it is %q, want %q", c.write, got, c.want)
		}
	}
}
