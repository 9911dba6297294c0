package clone

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/source/git"
)

// maxAttributes is the largest .gitattributes that git reads, in bytes.
const maxAttributes = 100 << 20

// attributes are those that would change files at checkout.
type attributes map[string]bool

// read looks through one file of attributes. That it may be about no file, or be taken back, does not matter to a warning.
func (a *attributes) read(store *git.Store, f git.File) error {
	if size, err := store.BlobSize(f.Hash); err != nil || size > maxAttributes {
		return err
	}
	var text bytes.Buffer
	if err := store.CopyBlob(&text, f.Hash); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		for _, attribute := range fields[1:] {
			name, value, _ := strings.Cut(attribute, "=")
			if name == "ident" || name == "filter" || name == "working-tree-encoding" || name == "eol" && value == "crlf" {
				if *a == nil {
					*a = attributes{}
				}
				(*a)[strings.ToValidUTF8(attribute, "?")] = true
			}
		}
	}
	return nil
}

// Attributes are those in the .gitattributes of what was checked out that would have changed files, sorted: "eol=crlf", "filter=lfs".
func (c *Clone) Attributes() []string { return slices.Sorted(maps.Keys(c.attrs)) }
