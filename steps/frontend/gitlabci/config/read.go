package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
)

// ruleError reports what a function of the options found wrong with a rule. Diagnostics keep their place.
func (r *problems) ruleError(rule Node, err error) {
	list := diag.Of(err)
	if list == nil {
		r.report(rule, "", "%v", err)
		return
	}
	for _, d := range list {
		if r.first(d.Span, d.Message) {
			r.found = append(r.found, d)
		}
	}
}

// globbed are the files that a pattern found, in their order.
func (r *resolver) globbed(inc inclusion, pattern string, paths []string) []inclusion {
	slices.Sort(paths)
	var out []inclusion
	for _, p := range slices.Compact(paths) {
		if leaves(p) || !isYAML(p) {
			continue
		}
		inc.place.Path = cleanPath(p)
		out = append(out, inc)
	}
	if len(out) == 0 {
		r.warn(inc.at, "check the pattern: it counts from the root of the project", "%q matches no YAML file, so nothing is included", shorten(pattern))
	}
	return out
}

// parse reads a text as YAML. It returns nil for one that cannot be read, which it reports.
func (r *resolver) parse(s *Source, data []byte) *yamlsource.File {
	options := yamlsource.Options{Tags: []string{referenceTag}, YAML11: true, LastKeyWins: true}
	if mayHaveHeader(data) {
		options.Open, options.Close = blockOpen, blockClose
	}
	file, err := yamlsource.ParseWith(s.Name, data, options)
	if err != nil {
		r.add(s, diag.Of(err))
		return nil
	}
	s.file = file
	if err := file.Err(); err != nil {
		r.add(s, diag.Of(err))
	}
	for _, d := range file.Warnings {
		if len(r.warnings) < MaxProblems {
			d.Message, d.Source = s.included(d.Message), hideSecrets(d.Source)
			r.warnings = append(r.warnings, d)
		}
	}
	return file
}

// mayHaveHeader is a quick look for a header: only in a file with one do blocks mean anything.
func mayHaveHeader(data []byte) bool {
	return bytes.Contains(data, []byte(blockOpen)) && bytes.Contains(data, []byte("spec"))
}

// read reads a file and all that it includes into one map. given are the values for its inputs. It returns nil for a file that
// gives nothing, which it reports.
func (r *resolver) read(s *Source, data []byte, given map[string]item) *tree {
	r.sources = append(r.sources, s)
	s.inputs = given
	file := r.parse(s, data)
	if file == nil {
		return nil
	}
	header, content := r.documents(s, file)
	c := s.converter()
	var root *tree
	if content != nil {
		root = c.tree(content)
	}
	if header != nil {
		blocks := r.header(s, Node{tree: c.tree(header)}, given)
		if root != nil {
			root = blocks.interpolate(root)
		}
	} else {
		r.inputReader().refuseInputs(s, given)
	}
	if root == nil {
		if header != nil {
			return &tree{source: s, kind: yamlsource.Mapping, nodes: 1, depth: 1}
		}
		return nil
	}
	if root.kind != yamlsource.Mapping {
		r.report(Node{tree: root}, "write keywords and jobs, each with a colon", "a configuration must be a map, not %s", root.kind)
		return nil
	}
	return r.include(s, root)
}

// documents tells the header of a file from its content.
func (r *resolver) documents(s *Source, file *yamlsource.File) (header, content *yamlsource.Node) {
	var docs []*yamlsource.Node
	for i, d := range file.Documents {
		if i == 0 || d.Kind != yamlsource.Null {
			docs = append(docs, d)
		}
	}
	if len(docs) == 0 || len(docs) == 1 && docs[0].Kind == yamlsource.Null {
		r.found = append(r.found, diag.Diagnostic{Span: diag.Span{File: s.Name}, Message: s.included("the file is empty"), Hint: "write keywords and jobs"})
		return nil, nil
	}
	if docs[0].Kind == yamlsource.Null {
		docs = docs[1:]
	}
	if spec := docs[0].Get("spec"); spec != nil {
		header, docs = docs[0], docs[1:]
		for _, e := range header.Entries {
			if e.Key.Text != "spec" {
				r.report(Node{tree: &tree{raw: e.Key, source: s}}, "write --- on a line of its own between `spec:` and the configuration", "a header can only contain `spec`, not %q", shorten(e.Key.Text))
				break
			}
		}
	}
	if len(docs) == 0 {
		return header, nil
	}
	for _, d := range docs[1:] {
		r.report(Node{tree: &tree{raw: d, source: s}}, "use a single document, after at most one header", "only one document can be the configuration")
	}
	return header, docs[0]
}

// include merges what a file includes with the file: what is included later goes over what is included earlier, and the file
// itself over all of it.
func (r *resolver) include(s *Source, root *tree) *tree {
	include := Node{tree: root}.Get("include")
	if !include.Exists() {
		return root
	}
	merged := &tree{kind: yamlsource.Mapping, nodes: 1, depth: 1}
	for _, inc := range r.inclusions(s, include) {
		if r.ctx.Err() != nil {
			return nil
		}
		if t := r.load(s, inc); t != nil {
			merged = merge(merged, nil, t, nil)
		} else {
			r.partial = true
		}
	}
	return merge(merged, nil, root.without("include"), nil)
}

// load reads one included file.
func (r *resolver) load(parent *Source, inc inclusion) *tree {
	s, data, ok := r.fetch(parent, inc)
	if !ok {
		return nil
	}
	return r.read(s, data, inc.inputs)
}

// fetch gets one included file, and reports why it cannot.
func (r *resolver) fetch(parent *Source, inc inclusion) (*Source, []byte, bool) {
	if r.includes++; r.includes > MaxIncludes {
		if r.includes == MaxIncludes+1 {
			r.report(inc.at, "include fewer files, or merge some into one", "more than %d files are included, which is the limit", MaxIncludes)
		}
		return nil, nil, false
	}
	if r.options.Loader == nil {
		r.report(inc.at, "", "%s cannot be included: files cannot be loaded here", inc.place)
		return nil, nil, false
	}
	if s := parent.repeats(inc); s != nil {
		r.report(inc.at, "break the cycle", "%s includes itself: %s", inc.place, parent.cycle(s, inc.place))
		return nil, nil, false
	}
	file, err := r.options.Loader.Load(r.ctx, inc.place)
	if err != nil {
		r.loadError(inc, err)
		return nil, nil, false
	}
	s := &Source{Name: file.Name, Place: file.Place, Parent: parent, At: inc.at.Span(), component: file.Component, asked: inc.place}
	if s.Name == "" {
		s.Name = inc.place.String()
	}
	if s.Place == (Place{}) {
		s.Place = inc.place
	}
	if s.component == nil {
		s.component = parent.component
	}
	if r.size += len(file.Data); len(file.Data) > MaxFileSize || r.size > MaxTotalSize {
		r.report(inc.at, "split it, or include less", "%s has %d bytes: one included file may have %d, and all together %d", inc.place, len(file.Data), MaxFileSize, MaxTotalSize)
		return nil, nil, false
	}
	if want := inc.integrity.Text(); want != "" {
		sum := sha256.Sum256(file.Data)
		if got := "sha256-" + base64.StdEncoding.EncodeToString(sum[:]); got != want {
			r.report(inc.integrity, "review what changed in it before you update the integrity", "%s has changed: its integrity is now %s", inc.place, got)
			return nil, nil, false
		}
	}
	return s, file.Data, true
}

// CodeUnavailable is the code of diagnostics about included files that exist, for all that is known, and could not be read.
const CodeUnavailable = "include_unavailable"

// loadError reports a file that the loader did not give.
func (r *resolver) loadError(inc inclusion, err error) {
	name := inc.place.String()
	text := err.Error()
	if inc.place.Kind == Remote {
		text = strings.ReplaceAll(text, inc.place.Path, name)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		if message := fmt.Sprintf("including %s: %s", name, text); r.first(inc.at.Span(), message) {
			d := inc.at.Diagnostic("", message)
			d.Code = CodeUnavailable
			r.found = append(r.found, d)
		}
		return
	}
	hint := ""
	if inc.place.Kind == Local || inc.place.Kind == Project {
		hint = "paths count from the root of the project"
	}
	if inc.place.Kind == Local && !r.full() {
		near := inc.place
		near.Path = path.Join(path.Dir(near.Path), "*")
		if names, err := r.options.Loader.Glob(r.ctx, near); err == nil {
			hint = r.suggest(inc.place.Path, names, hint)
		}
	}
	r.report(inc.at, hint, "there is no file %s to include", name)
}

// repeats returns the file of the chain that includes the same file with the same inputs as inc, which would never end. A file
// may include itself with other inputs: its rules can put an end to that.
func (s *Source) repeats(inc inclusion) *Source {
	for at := s; at != nil; at = at.Parent {
		if (at.asked == inc.place || at.Place == inc.place) && sameInputs(at.inputs, inc.inputs) {
			return at
		}
	}
	return nil
}

func sameInputs(a, b map[string]item) bool {
	if len(a) != len(b) {
		return false
	}
	for name, x := range a {
		if y, ok := b[name]; !ok || !equal(x.value, y.value) {
			return false
		}
	}
	return true
}

// cycle spells the way from one file of the chain back to it.
func (s *Source) cycle(from *Source, to Place) string {
	names := []string{to.String()}
	for at := s; at != nil; at = at.Parent {
		names = append(names, at.Name)
		if at == from {
			break
		}
	}
	slices.Reverse(names)
	return strings.Join(elide(names), " → ")
}

// refuseInputs reports inputs for a file that declares none.
func (r *inputReader) refuseInputs(s *Source, given map[string]item) {
	for _, name := range sortedNames(given) {
		v := Node{tree: given[name].value, via: given[name].via}
		hint := "delete it, or declare it in a header of the file: `spec:` with `inputs:`, then ---"
		if v.Span().IsZero() {
			r.reportGiven(s, given[name], hint, "there is no input %q", shorten(name))
			continue
		}
		r.report(v, hint, "%s has no input %q", s.Name, shorten(name))
	}
}
