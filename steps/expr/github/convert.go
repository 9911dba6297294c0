package github

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unsafe"

	"github.com/rungci/rung/steps/value"
)

// keywords are the names of values. Their case counts.
var keywords = map[string]value.Value{
	"null": {}, "true": value.OfBool(true), "false": value.OfBool(false),
	"NaN": value.OfFloat(math.NaN()), "Infinity": value.OfFloat(math.Inf(1)),
}

// Text returns the value as GitHub puts it into text: null is empty, arrays are "Array" and objects "Object".
func Text(v value.Value) string {
	switch v.Kind() {
	case value.Boolean:
		return strconv.FormatBool(v.Bool())
	case value.Number:
		return formatNumber(v.Float())
	case value.Array:
		return "Array"
	case value.Struct:
		return "Object"
	default:
		return v.Str()
	}
}

// Truthy reports whether a condition that yields the value holds: null, false, 0, NaN and "" do not. Arrays and objects do, even if empty.
func Truthy(v value.Value) bool {
	switch v.Kind() {
	case value.Null:
		return false
	case value.Boolean:
		return v.Bool()
	case value.Number:
		return v.Float() != 0 && !math.IsNaN(v.Float())
	case value.String:
		return v.Str() != ""
	default:
		return true
	}
}

// The digits of a number in text, and the exponents that are written without an E.
const (
	digits      = 15
	minExponent = -4
)

// formatNumber writes a number as .NET's G15 does.
func formatNumber(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatInt(int64(f), 10)
	}
	mantissa, exponentText, _ := strings.Cut(strconv.FormatFloat(f, 'e', digits-1, 64), "e")
	exponent, _ := strconv.Atoi(exponentText)
	mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	if exponent < minExponent || exponent >= digits {
		sign := "+"
		if exponent < 0 {
			sign, exponent = "-", -exponent
		}
		if exponent < 10 {
			sign += "0"
		}
		return mantissa + "E" + sign + strconv.Itoa(exponent)
	}
	places := max(0, len(strings.TrimLeft(strings.ReplaceAll(mantissa, ".", ""), "-"))-1-exponent)
	return strconv.FormatFloat(f, 'f', places, 64)
}

// toNumber returns what a value counts as, NaN where it is not a number.
func toNumber(v value.Value) float64 {
	switch v.Kind() {
	case value.Null:
		return 0
	case value.Boolean:
		if v.Bool() {
			return 1
		}
		return 0
	case value.Number:
		return v.Float()
	case value.String:
		return parseNumber(v.Str())
	default:
		return math.NaN()
	}
}

// parseNumber reads a number, NaN if the text is none. Nothing is 0.
func parseNumber(text string) float64 {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0
	}
	if len(text) > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'o') {
		base := 16
		if text[1] == 'o' {
			base = 8
		}
		if n, err := strconv.ParseUint(text[2:], base, 32); err == nil {
			return float64(int32(n)) // 32 bits with a sign: 0xffffffff is -1
		}
		return math.NaN()
	}
	unsigned := strings.TrimLeft(text[:1], "+-") + text[1:]
	switch {
	case strings.EqualFold(unsigned, "infinity"):
		if text[0] == '-' {
			return math.Inf(-1)
		}
		return math.Inf(1)
	case !isDecimal(unsigned):
		return math.NaN()
	}
	f, _ := strconv.ParseFloat(text, 64) // what is too large is infinite
	return f
}

// isDecimal reports whether the text is digits with a point and an exponent at most.
func isDecimal(text string) bool {
	mantissa, exponent, hasExponent := text, "", false
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent, hasExponent = text[:i], text[i+1:], true
		if strings.HasPrefix(exponent, "+") || strings.HasPrefix(exponent, "-") {
			exponent = exponent[1:]
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	return allDigits(whole+fraction) && (!hasExponent || allDigits(exponent))
}

func allDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// compare orders two values as GitHub does. comparable is false where neither is greater nor equal.
func compare(a, b value.Value) (order int, comparable bool) {
	if a.Kind() == b.Kind() {
		switch a.Kind() {
		case value.Null:
			return 0, true
		case value.String:
			return foldCompare(a.Str(), b.Str()), true
		case value.Array, value.Struct:
			return 0, same(a, b)
		}
	}
	x, y := toNumber(a), toNumber(b)
	switch {
	case math.IsNaN(x) || math.IsNaN(y):
		return 0, false
	case x < y:
		return -1, true
	case x > y:
		return 1, true
	default:
		return 0, true
	}
}

// equal reports whether a == b.
func equal(a, b value.Value) bool {
	order, comparable := compare(a, b)
	return comparable && order == 0
}

// same reports whether two arrays, or two objects, are one and the same.
func same(a, b value.Value) bool {
	if a.Kind() == value.Array {
		return len(a.Items()) == len(b.Items()) && unsafe.SliceData(a.Items()) == unsafe.SliceData(b.Items())
	}
	return a.Fields() != nil && reflect.ValueOf(a.Fields()).Pointer() == reflect.ValueOf(b.Fields()).Pointer()
}

// upper is the upper case of a character as ordinal comparisons without regard to case have it: one character for one, and none of
// ASCII for others.
func upper(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z':
		return r - 'a' + 'A'
	case r < 0x80, r == 'ı', r == 'ſ':
		return r
	default:
		return unicode.ToUpper(r)
	}
}

func fold(text string) string { return strings.Map(upper, text) }

// foldCompare orders two texts without regard to case.
func foldCompare(a, b string) int {
	if a == b {
		return 0
	}
	return strings.Compare(fold(a), fold(b))
}
