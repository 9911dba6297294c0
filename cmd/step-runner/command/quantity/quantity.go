// Package quantity formats and parses ages and counts, and has the flag of a size.
package quantity

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rungci/rung/internal/bytesize"
)

// Age is a time as ParseAge reads it.
func Age(d time.Duration) string { return strconv.Itoa(int(d/(24*time.Hour))) + "d" }

// ParseAge reads a time, "12h" or "30d".
func ParseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%q is not a duration; write it as 12h or 30d", text)
}

// sizeFlag is a flag for a number of bytes, written as bytesize.Parse reads it.
type sizeFlag[N int | int64] struct{ n *N }

// SizeVar is a flag for n.
func SizeVar[N int | int64](n *N) pflag.Value { return sizeFlag[N]{n} }

func (f sizeFlag[N]) String() string {
	if f.n == nil {
		return ""
	}
	return bytesize.Format(int64(*f.n))
}

func (f sizeFlag[N]) Set(text string) error {
	n, err := bytesize.Parse(text)
	if err != nil {
		return err
	}
	if int64(N(n)) != n {
		return fmt.Errorf("%q is too large for this system", text)
	}
	*f.n = N(n)
	return nil
}

func (f sizeFlag[N]) Type() string { return "size" }

// Count is a number of things: "1 file", "2 files".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
