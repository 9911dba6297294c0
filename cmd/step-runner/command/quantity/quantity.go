// Package quantity formats and parses sizes, ages and counts.
package quantity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// sizeUnits are the units of sizes, the longest names first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}, {"", 1},
}

// Bytes is a size as people read it.
func Bytes(n int64) string {
	for _, u := range sizeUnits[:4] {
		if n >= u.bytes {
			return strconv.FormatFloat(math.Round(float64(n)*10/float64(u.bytes))/10, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// ParseSize reads a size, "500MB" or "2GiB". Without a unit it is in bytes.
func ParseSize(text string) (int64, error) {
	for _, u := range sizeUnits {
		number, ok := cutSuffixFold(strings.TrimSpace(text), u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(n > 0) || n*float64(u.bytes) > math.MaxInt64/2 {
			break
		}
		return max(1, int64(n*float64(u.bytes))), nil
	}
	return 0, fmt.Errorf("%q is not a size; write it as 500MB or 2GiB", text)
}

func cutSuffixFold(s, suffix string) (string, bool) {
	i := len(s) - len(suffix)
	if i < 0 || !strings.EqualFold(s[i:], suffix) {
		return s, false
	}
	return s[:i], true
}

// Age is a time as parseAge reads it.
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

// sizeFlag is a flag for a number of bytes, written as parseSize reads it.
type sizeFlag[N int | int64] struct{ n *N }

// SizeVar is a flag for n.
func SizeVar[N int | int64](n *N) pflag.Value { return sizeFlag[N]{n} }

func (f sizeFlag[N]) String() string {
	if f.n == nil {
		return ""
	}
	return Bytes(int64(*f.n))
}

func (f sizeFlag[N]) Set(text string) error {
	n, err := ParseSize(text)
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
