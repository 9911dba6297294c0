// Package bytesize formats and parses sizes.
package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are the units of sizes, the longest names first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}, {"", 1},
}

// Format is a size as people read it: 1.5GiB.
func Format(n int64) string {
	for _, u := range sizeUnits[:4] {
		if n >= u.bytes {
			return strconv.FormatFloat(math.Round(float64(n)*10/float64(u.bytes))/10, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// Parse reads a size, "500MB" or "2GiB". Without a unit it is in bytes.
func Parse(text string) (int64, error) {
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
