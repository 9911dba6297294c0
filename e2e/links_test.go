package e2e

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// TestLinks follows every link of the repository's Markdown files that does not leave the repository.
func TestLinks(t *testing.T) {
	pages := markdown(t)
	if len(pages) < 10 {
		t.Fatalf("found only %d Markdown files: %q", len(pages), pages)
	}
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			for _, link := range links(read(t, page)) {
				if problem := follow(t, page, link); problem != "" {
					t.Errorf("[…](%s) %s", link, problem)
				}
			}
		})
	}
}

// markdown returns the paths of the Markdown files, from the root.
func markdown(t *testing.T) []string {
	t.Helper()
	var pages []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "build", "testdata"}, entry.Name()):
			return filepath.SkipDir
		case !entry.IsDir() && filepath.Ext(path) == ".md":
			page, err := filepath.Rel(root, path)
			pages = append(pages, page)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

var (
	fence  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	span   = regexp.MustCompile("`[^`\n]+`")
	target = regexp.MustCompile(`\]\(([^()\s]+)\)`)
)

// links returns where the links of a page lead. What stands in code is not a link.
func links(text string) []string {
	text = span.ReplaceAllString(fence.ReplaceAllString(text, ""), "code")
	var found []string
	for _, match := range target.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// follow says what is wrong with a link of a page, "" when nothing is.
func follow(t *testing.T, page, link string) string {
	t.Helper()
	to, err := url.Parse(link)
	switch {
	case err != nil:
		return err.Error()
	case to.Scheme != "":
		return "" // another site
	case strings.HasPrefix(to.Path, "/"):
		return "begins with /, which is not the root of the repository everywhere"
	}
	path := page
	if to.Path != "" {
		path = filepath.Join(filepath.Dir(page), filepath.FromSlash(to.Path))
	}
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		return "leads to no file"
	}
	if to.Fragment != "" && !slices.Contains(anchors(read(t, path)), to.Fragment) {
		return "leads to no heading of " + path
	}
	return ""
}

var heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#* *$`)

// anchors returns the names that the headings of a page can be linked by: in lower case, without punctuation, with dashes for
// spaces. A heading that comes again has a number behind its name.
func anchors(text string) []string {
	var names []string
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '-':
				return '-'
			case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, match[1])
		for n, base := 1, name; slices.Contains(names, name); n++ {
			name = base + "-" + strconv.Itoa(n)
		}
		names = append(names, name)
	}
	return names
}

func TestAnchors(t *testing.T) {
	text := "# `step` and `func`\n## `allow_failure`\n```yaml\n# a comment\n```\n### What's new? #\n## Example\n## Example\n"
	want := []string{"step-and-func", "allow_failure", "whats-new", "example", "example-1"}
	if got := anchors(text); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
