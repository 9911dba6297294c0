package scenario

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/internal/bytesize"
	"github.com/rungci/rung/internal/placed"
)

// The types of values. Each refuses what has no meaning, so that the error has the value's place.
type (
	duration time.Duration // "90s"
	size     int64         // "4GiB", or a number of bytes
	amount   float64       // 0 or more
	share    float64       // 0 to 1
	count    int           // 0 or more
	spot     scale.Spot    // "any", "only" or "never"
)

// maxNumber bounds numbers that are not shares.
const maxNumber = 1e9

func parseDuration(text string) (duration, error) {
	got, err := time.ParseDuration(text)
	if err != nil || got < 0 {
		return 0, fmt.Errorf("%q is not a duration; write it as \"90s\" or \"1h30m\"", text)
	}
	return duration(got), nil
}

func parseNumber(text string, most float64) (float64, error) {
	got, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil || !(got >= 0 && got <= most) {
		return 0, fmt.Errorf("%s is not a number from 0 to %g", text, most)
	}
	return got, nil
}

func parseAmount(text string) (amount, error) {
	got, err := parseNumber(text, maxNumber)
	return amount(got), err
}

func parseShare(text string) (share, error) {
	got, err := parseNumber(text, 1)
	return share(got), err
}

func parseCount(text string) (count, error) {
	got, err := parseNumber(text, maxNumber)
	if err != nil || got != math.Trunc(got) {
		return 0, fmt.Errorf("%s is not a whole number from 0", text)
	}
	return count(got), nil
}

func parseSize(text string) (size, error) {
	got, err := bytesize.Parse(text)
	return size(got), err
}

// spots are the names of scale.Spot.
var spots = []string{scale.AnySpot: "any", scale.OnlySpot: "only", scale.NoSpot: "never"}

func parseSpot(text string) (spot, error) {
	for i, name := range spots {
		if text == name {
			return spot(i), nil
		}
	}
	return 0, fmt.Errorf("%q must be one of any, only, never", text)
}

// read reads a value of TOML: one in quotes, if it must be.
func read[T any](into *T, value []byte, quoted bool, parse func(string) (T, error)) error {
	text, isText := placed.String(value)
	switch {
	case !isText && quoted:
		return placed.Refusal(value, "%s must be in quotes", value)
	case !isText:
		text = string(value)
	case !quoted:
		return placed.Refusal(value, "%s must not be in quotes", value)
	}
	got, err := parse(text)
	if err != nil {
		return placed.Refusal(value, "%v", err)
	}
	*into = got
	return nil
}

// UnmarshalTOML reads a duration.
func (d *duration) UnmarshalTOML(value []byte) error { return read(d, value, true, parseDuration) }

// UnmarshalTOML reads a size.
func (s *size) UnmarshalTOML(value []byte) error { return read(s, value, true, parseSize) }

// UnmarshalTOML reads a number.
func (a *amount) UnmarshalTOML(value []byte) error { return read(a, value, false, parseAmount) }

// UnmarshalTOML reads a share.
func (s *share) UnmarshalTOML(value []byte) error { return read(s, value, false, parseShare) }

// UnmarshalTOML reads a whole number.
func (c *count) UnmarshalTOML(value []byte) error { return read(c, value, false, parseCount) }

// UnmarshalTOML reads whether a machine may be taken back.
func (s *spot) UnmarshalTOML(value []byte) error { return read(s, value, true, parseSpot) }
