package glob

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// MaxAlternatives bounds what the braces of one pattern may stand for: "{a,b}{c,d}" has 4 alternatives. Matching takes time in
// proportion to their number.
const MaxAlternatives = 1000

var (
	errOutside = errors.New("it leads out of the project's folder; name files by paths relative to that folder")
	errSyntax  = errors.New("its brackets or braces do not fit together; write a backslash before one that stands for itself")
	errMany    = fmt.Errorf("its braces have more than %d alternatives; write several patterns", MaxAlternatives)
	errEmpty   = errors.New("it is empty; perhaps it consists of a variable that has no value")
)

// base is the project's folder under the two names that it may have: as it was given, and without symbolic links.
type base struct{ given, real string }

func newBase(dir string) base {
	b := base{given: filepath.Clean(dir), real: filepath.Clean(dir)}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		b.real = real
	}
	return b
}

// relative returns a pattern as a clean one that is relative to the project's folder. A pattern may leave the folder and come back.
func (b base) relative(pattern string) (string, error) {
	if pattern == "" {
		return "", errEmpty
	}
	if !doublestar.ValidatePattern(pattern) {
		return "", errSyntax
	}
	if alternatives(pattern) > MaxAlternatives {
		return "", errMany
	}
	literal, rest := doublestar.SplitPattern(filepath.ToSlash(pattern))
	folder := filepath.FromSlash(literal)
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(b.given, folder)
	}
	relative, ok := within(b.given, folder)
	if !ok {
		relative, ok = within(b.real, folder)
	}
	if !ok {
		return "", errOutside
	}
	joined := collapse(path.Join(escape(relative), rest))
	if joined == ".." || strings.HasPrefix(joined, "../") {
		return "", errOutside
	}
	return joined, nil
}

func within(folder, name string) (relative string, ok bool) {
	relative, err := filepath.Rel(folder, name)
	if err != nil || relative == ".." || strings.HasPrefix(relative, ".."+string(filepath.Separator)) {
		return "", false
	}
	return filepath.ToSlash(relative), true
}

// collapse takes repetitions out: "a/**/**/b" means no more than "a/**/b", and takes longer.
func collapse(pattern string) string {
	for strings.Contains(pattern, "**/**/") {
		pattern = strings.ReplaceAll(pattern, "**/**/", "**/")
	}
	if rest, ok := strings.CutSuffix(pattern, "/**/**"); ok {
		pattern = rest + "/**"
	}
	return pattern
}

func matches(pattern, name string) bool {
	return doublestar.MatchUnvalidated(pattern, name)
}

// maxDepth returns how many segments a path has that the pattern matches; 0 when there is no bound.
func maxDepth(pattern string) int {
	if strings.Contains(pattern, "**") || strings.Contains(pattern, "{") {
		return 0
	}
	return strings.Count(pattern, "/") + 1
}

func hasMeta(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '*', '?', '[', '{':
			return true
		}
	}
	return false
}

// escape makes a pattern that matches the name alone.
func escape(name string) string {
	if !strings.ContainsAny(name, `*?[]{}\`) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if strings.IndexByte(`*?[]{}\`, name[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

func unescape(pattern string) string {
	if !strings.Contains(pattern, `\`) {
		return pattern
	}
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		}
		b.WriteByte(pattern[i])
	}
	return b.String()
}

// alternatives returns how many patterns the braces of one stand for, or more than MaxAlternatives when those are too many.
func alternatives(pattern string) int {
	n, _ := countAlternatives(pattern, false)
	return n
}

// countAlternatives counts up to the end of the pattern, or of the braces that it is in, and returns what comes after.
func countAlternatives(pattern string, inBraces bool) (total int, rest string) {
	product := 1
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '{':
			var inner int
			inner, pattern = countAlternatives(pattern[i+1:], true)
			i = -1
			product = min(product*inner, MaxAlternatives+1)
		case c == ',' && inBraces:
			total, product = min(total+product, MaxAlternatives+1), 1
		case c == '}' && inBraces:
			return min(total+product, MaxAlternatives+1), pattern[i+1:]
		}
	}
	return min(total+product, MaxAlternatives+1), ""
}

// InGit reports whether a path of the project is Git's own folder at its root, or in it. Folders called .git further down are not
// of this project's Git.
func InGit(name string) bool {
	first, _, _ := strings.Cut(path.Clean(filepath.ToSlash(name)), "/")
	return first == ".git"
}
