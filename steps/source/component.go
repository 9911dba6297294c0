package source

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source/tree"
)

// candidates are the folders and files where the definition that a reference names can be, in the order in which to look.
func candidates(ref *plan.Reference, folder string) (places [][2]string) {
	folders := []string{folder}
	if ref.OrRoot {
		if _, rest, ok := strings.Cut(folder+"/", "/"); ok {
			folders = append(folders, strings.TrimSuffix(rest, "/"))
		}
	}
	names := []string{plan.DefaultFile, plan.FallbackFile}
	switch {
	case ref.Kind == plan.RefAction:
		names = actionFiles
	case ref.File != "":
		names = []string{ref.File}
	}
	for _, dir := range folders {
		for _, name := range names {
			places = append(places, [2]string{dir, name})
		}
	}
	return places
}

// outsideItsPackage is why a reference of a component that was fetched is not followed.
const outsideItsPackage = "a component that was fetched cannot refer to files outside of its package"

// mayName refuses references of a component in the package to places that are on this machine only.
func (l *laidOut) mayName(ref *plan.Reference) error {
	switch at := LocationOf(ref, l.root, l.root); {
	case at == nil:
	case ref.Kind == plan.RefArchive && !strings.Contains(ref.URL, "://") && strings.HasPrefix(at.URL, "file:"):
		return &DeniedError{What: ref.Text, Why: "a component that was fetched cannot refer to an archive by a path",
			Hint: "publish the archive, and refer to its address; or put what is in it into the package"}
	case isFileURL(at.URL) && !isFileURL(l.at.Name):
		return &DeniedError{What: ref.Text, Why: outsideItsPackage}
	}
	return nil
}

func isFileURL(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	return strings.EqualFold(scheme, "file") && ok || strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./")
}

// relative follows a local reference from inside a package, which it cannot leave. Actions alone may refer to others in the work
// directory: that is where GitHub finds ./folder, whoever says it.
func (r *Resolver) relative(ctx context.Context, laid *laidOut, ref *plan.Reference, from string) (*Component, error) {
	to := filepath.Join(ref.Path...)
	if ref.Kind == plan.RefAction {
		if err := r.Local.checkAction(ref); err != nil {
			return nil, err
		}
		to = filepath.FromSlash(ref.Action)
	}
	full, absolute := filepath.Join(from, to), filepath.IsAbs(to) || strings.HasPrefix(to, string(filepath.Separator))
	if absolute {
		full = filepath.Clean(to)
	}
	dir, err := filepath.Rel(laid.root, full)
	inside := err == nil && filepath.IsLocal(dir)
	if ref.Kind == plan.RefAction && absolute && !inside && r.WorkDir != "" {
		if rel, err := filepath.Rel(r.WorkDir, full); err == nil && filepath.IsLocal(rel) {
			return loadLocal(ctx, r, ref, from)
		}
	}
	if !inside || absolute && ref.Kind != plan.RefAction {
		return nil, &DeniedError{What: ref.Text, Why: outsideItsPackage}
	}
	folder := filepath.ToSlash(dir)
	if folder == "." {
		folder = ""
	}
	return r.component(laid, ref, folder)
}

// component finds and reads the definition that a reference names in a folder of a package.
func (r *Resolver) component(laid *laidOut, ref *plan.Reference, folder string) (*Component, error) {
	missing := &NotFoundError{Ref: ref.Text}
	for _, place := range candidates(ref, folder) {
		file := path.Join(place[0], place[1])
		if laid.manifest.Has(file) {
			return r.read(laid, place[0], place[1], ref)
		}
		missing.Looked = append(missing.Looked, file)
	}
	return nil, missing
}

// read reads one definition of a package.
func (r *Resolver) read(laid *laidOut, folder, file string, ref *plan.Reference) (*Component, error) {
	text := ref.Text
	digest := laid.manifest.Digest(folder)
	origin := laid.origin()
	origin.Path = folder
	if l := r.Lock.Find(laid.at.Kind, laid.at.Name, laid.at.Rev); l != nil {
		if want := l.Component(folder, file); want != "" && want != digest && forHere(r, l) {
			return nil, r.otherContent(text, "its content", digest, want)
		}
	}
	if laid.trust.Verify != nil {
		from := laid.packageFrom
		from.part = ""
		whole, err := r.layOut(from)
		if err != nil {
			return nil, r.damaged(err, from.content, from.at)
		}
		signed, keys, err := r.signed(whole, folder, text)
		if err != nil {
			return nil, err
		}
		laid, origin.SignedBy = signed, keys
	}
	found, err := r.Local.read(definition{filepath.Join(laid.root, filepath.FromSlash(folder), file), ref.Kind == plan.RefAction, true})
	if err != nil {
		return nil, err
	}
	if err := inside(found, text, laid.root); err != nil {
		return nil, err
	}
	component := *found
	component.Ref, component.Digest, component.Origin = text, digest, &origin
	return &component, nil
}

// signed finds the signature that covers a folder: its own, or that of a folder around it. The component then gets what is
// signed and nothing else of its package.
func (r *Resolver) signed(laid *laidOut, folder, text string) (*laidOut, []string, error) {
	envelopes, err := envelopesIn(r, laid.content)
	if err != nil {
		return nil, nil, err
	}
	var last error
	for dir := folder; ; dir = path.Dir(dir) {
		if dir == "." {
			dir = ""
		}
		if envelope, ok := envelopes[dir]; ok {
			keys, verr := laid.trust.Verify(envelope, laid.manifest.Digest(dir))
			if verr == nil {
				slices.Sort(keys)
				from := laid.packageFrom
				from.part = dir
				part, err := r.layOut(from)
				return part, keys, err
			}
			last = verr
		}
		if dir == "" {
			break
		}
	}
	why := "your sources demand a signature, and it has none"
	if last != nil {
		why = "your sources demand a signature, and the one it has will not do: " + last.Error()
	}
	return nil, nil, &DeniedError{What: text, Why: why, Hint: "sign its folder with step-runner sign, or change signed_by in sources.toml"}
}

// envelopesIn are the signatures in a package, by folder. They are not laid out: a component is given nothing that its digest does not cover.
func envelopesIn(r *Resolver, content string) (map[string][]byte, error) {
	pack, err := r.builtins.Package(content)
	if err != nil {
		pack, err = r.openPackage(content)
	}
	if err != nil {
		return nil, err
	}
	defer pack.Close()
	return tree.Signatures(pack)
}

// Envelope returns the signatures over a component's folder. The error is fs.ErrNotExist where there are none.
func (r *Resolver) Envelope(c *Component) ([]byte, error) {
	if c.Origin == nil {
		return os.ReadFile(filepath.Join(c.Dir, SignatureFile))
	}
	envelopes, err := envelopesIn(r, c.Origin.Package)
	if err != nil {
		return nil, err
	}
	if text, ok := envelopes[c.Origin.Path]; ok {
		return text, nil
	}
	return nil, fs.ErrNotExist
}
