package bytesize_test

import (
	"testing"

	"github.com/rungci/rung/internal/bytesize"
)

func TestASizeIsReadAsItIsWritten(t *testing.T) {
	for n, text := range map[int64]string{1: "1B", 1023: "1023B", 1 << 10: "1KiB", 3 << 19: "1.5MiB", 1 << 30: "1GiB", 1 << 41: "2TiB"} {
		if got := bytesize.Format(n); got != text {
			t.Errorf("%d is %s, want %s", n, got, text)
		}
		if got, err := bytesize.Parse(text); got != n || err != nil {
			t.Errorf("%s is %d, %v, want %d", text, got, err, n)
		}
	}
	for _, text := range []string{"", "many", "-1MB", "1XB", "9e30GiB"} {
		if n, err := bytesize.Parse(text); err == nil {
			t.Errorf("%q is %d", text, n)
		}
	}
}
