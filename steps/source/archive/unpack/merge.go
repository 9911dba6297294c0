package unpack

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/source/tree"
)

// node is a file, a link or a folder of what the layers make together.
type node struct {
	folder     map[string]*node // nil when it is not a folder
	link       string           // "" when it is not a link
	lenient    bool             // the link is from an image
	layer, n   int              // which entry holds the file's content
	executable bool
}

func newFolder() *node { return &node{folder: map[string]*node{}} }

// whiteout begins the name of a file that says that another one, of an earlier layer, is gone.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq" // all of the folder is gone
)

// changes are the entries of one layer.
type changes struct {
	kind    Kind
	layer   int
	seen    int // entries of the archive so far
	entries []entry
	gone    []string // files and folders of earlier layers
	emptied []string // folders of which all that earlier layers hold is gone
}

type entry struct {
	*pack.Entry
	n int // counts the entries of the layer, from 0
}

func newChanges(layer int, kind Kind) *changes { return &changes{layer: layer, kind: kind} }

// note takes an entry of a layer's archive.
func (c *changes) note(e *pack.Entry, _ io.Reader) error {
	n := c.seen
	c.seen++
	name := e.Name
	if name == "." || inGit(name) {
		return nil
	}
	if c.kind == Image && strings.ContainsFunc(name, unportable) {
		return nil
	}
	if err := tree.CheckPath(name); err != nil {
		return err
	}
	if folder, base := path.Split(name); c.kind != Archive && strings.HasPrefix(base, whiteout) {
		switch folder = strings.TrimSuffix(folder, "/"); {
		case base == opaque:
			c.emptied = append(c.emptied, folder)
		case !strings.HasPrefix(base, whiteout+whiteout): // others of that kind are a file system's own
			c.gone = append(c.gone, path.Join(folder, strings.TrimPrefix(base, whiteout)))
		}
		return nil
	}
	if e.Kind == pack.KindSpecial {
		if c.kind == Image {
			return nil
		}
		return &pack.FormatError{Entry: name, Why: "it is " + specialName(e.Mode) + "; only files, folders and links can be part of a component"}
	}
	c.entries = append(c.entries, entry{e, n})
	return nil
}

// unportable are the characters that CheckPath refuses and that names on a Linux file system can well have.
func unportable(r rune) bool { return r == '\\' || r == '\n' || r == '\r' || r == '\uFFFD' }

func specialName(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "of an unknown type"
}

// merge is what the layers so far make together.
type merge struct{ root *node }

// apply lays a layer over the others.
func (m *merge) apply(c *changes) error {
	for _, name := range c.emptied {
		if folder, err := m.folder(name, c.kind, false); err == nil && folder != nil {
			clear(folder.folder)
		}
	}
	for _, name := range c.gone {
		parent, base := path.Split(name)
		if folder, err := m.folder(strings.TrimSuffix(parent, "/"), c.kind, false); err == nil && folder != nil {
			delete(folder.folder, base)
		}
	}
	seen := map[string]bool{}
	for _, e := range c.entries {
		if c.kind != Image && e.Kind != pack.KindFolder {
			if seen[e.Name] {
				return &pack.FormatError{Entry: e.Name, Why: "the archive holds it twice"}
			}
			seen[e.Name] = true
		}
		if err := m.add(c, e); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) add(c *changes, e entry) error {
	parent, base := path.Split(e.Name)
	folder, err := m.folder(strings.TrimSuffix(parent, "/"), c.kind, true)
	if err != nil {
		return err
	}
	there := folder.folder[base]
	if there != nil && c.kind == Archive && (there.folder != nil) != (e.Kind == pack.KindFolder) {
		return &pack.FormatError{Entry: e.Name, Why: "the archive holds it twice, as a file and as a folder"}
	}
	switch e.Kind {
	case pack.KindFolder:
		if there == nil || there.folder == nil {
			folder.folder[base] = newFolder()
		}
	case pack.KindSymlink:
		if e.Target == "" {
			return &pack.FormatError{Entry: e.Name, Why: "it is a link to nothing"}
		}
		if c.kind == Image && (len(e.Target) > tree.MaxLinkSize || strings.ContainsFunc(e.Target, unportable)) {
			delete(folder.folder, base)
			return nil
		}
		folder.folder[base] = &node{link: e.Target, lenient: c.kind == Image}
	case pack.KindHardLink:
		parent, targetBase := path.Split(e.Target)
		from, err := m.folder(strings.TrimSuffix(parent, "/"), c.kind, false)
		if err != nil {
			return err
		}
		if from == nil || from.folder[targetBase] == nil || from.folder[targetBase].folder != nil {
			return &pack.FormatError{Entry: e.Name, Why: fmt.Sprintf("it is a hard link to %q, which is not a file before it", e.Target)}
		}
		folder.folder[base] = from.folder[targetBase]
	default:
		folder.folder[base] = &node{layer: c.layer, n: e.n, executable: e.Mode&0o111 != 0}
	}
	return nil
}

// maxHops bounds how many links one path may lead through.
const maxHops = 40

// folder returns the folder at a path. Without make it is nil where there is none. In an image a path may lead through links,
// and a folder takes the place of a file.
func (m *merge) folder(name string, kind Kind, make bool) (*node, error) {
	at, done := m.root, ""
	rest := name
	for hops := 0; rest != ""; {
		var element string
		element, rest, _ = strings.Cut(rest, "/")
		next := at.folder[element]
		full := path.Join(done, element)
		switch {
		case next != nil && next.folder != nil:
		case next != nil && next.link != "" && kind == Image:
			if hops++; hops > maxHops {
				return nil, &pack.FormatError{Entry: name, Why: "it is below links that lead in a circle"}
			}
			rest = path.Join(strings.TrimPrefix(path.Join("/", inside(done, next.link)), "/"), rest)
			at, done = m.root, ""
			continue
		case !make:
			return nil, nil
		case next != nil && kind != Image:
			return nil, &pack.FormatError{Entry: name, Why: fmt.Sprintf("it is below %q, which is not a folder", full)}
		default:
			next = newFolder()
			at.folder[element] = next
		}
		at, done = next, full
	}
	return at, nil
}

// inside returns where in the tree a link in a folder leads; as in a system of its own ".." ends at the root.
func inside(folder, target string) string {
	if !path.IsAbs(target) {
		target = "/" + folder + "/" + target
	}
	return strings.TrimPrefix(path.Clean(target), "/")
}

// wish is a name that a file's content is to have.
type wish struct {
	name       string
	executable bool
}

type link struct{ name, target string }

// result returns which entries of which layer are wanted under which names, and the links.
func (m *merge) result(layers int) (wanted []map[int][]wish, links []link) {
	wanted = make([]map[int][]wish, layers)
	for i := range wanted {
		wanted[i] = map[int][]wish{}
	}
	var walk func(n *node, at string)
	walk = func(n *node, at string) {
		for _, base := range slices.Sorted(maps.Keys(n.folder)) {
			child := n.folder[base]
			name := path.Join(at, base)
			switch {
			case child.folder != nil:
				walk(child, name)
			case child.link != "":
				links = append(links, link{name, child.target(name)})
			default:
				wanted[child.layer][child.n] = append(wanted[child.layer][child.n], wish{name, child.executable})
			}
		}
	}
	walk(m.root, "")
	return wanted, links
}

// target is what the link at a path says. One of an image that leads out of a tree, or that a tree cannot have, is turned to
// where it leads in the image.
func (n *node) target(name string) string {
	folder := path.Dir(name)
	if folder == "." {
		folder = ""
	}
	if !n.lenient || !path.IsAbs(n.link) && !climbs(folder, n.link) {
		return n.link
	}
	up := 0
	if folder != "" {
		up = strings.Count(folder, "/") + 1
	}
	return path.Join(strings.Repeat("../", up)+".", inside(folder, n.link))
}

// climbs reports whether a relative target leads above the root, or climbs after a name, which may be a link itself.
func climbs(folder, target string) bool {
	depth, down := 0, false
	if folder != "" {
		depth = strings.Count(folder, "/") + 1
	}
	for element := range strings.SplitSeq(target, "/") {
		switch element {
		case "", ".":
		case "..":
			if depth--; depth < 0 || down {
				return true
			}
		default:
			down = true
		}
	}
	return false
}

// addAll packs an entry's content under all the names that are wanted.
func addAll(to *tree.Writer, names []wish, size int64, content io.Reader) error {
	if len(names) == 0 {
		return nil
	}
	if len(names) == 1 {
		return addFile(to, names[0].name, names[0].executable, size, content)
	}
	temp, err := os.CreateTemp("", "step-runner-")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	if _, err := io.Copy(temp, content); err != nil {
		return err
	}
	for _, w := range names {
		if err := addFile(to, w.name, w.executable, size, io.NewSectionReader(temp, 0, size)); err != nil {
			return err
		}
	}
	return nil
}
