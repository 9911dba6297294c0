package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/keys"
	describe "github.com/rungci/rung/publish/page"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/tree"
)

// describeOptions are the flags of describe.
type describeOptions struct {
	from    components.Flags
	format  string
	json    bool
	keys    []string
	catalog bool
	out     string
	base    string
}

func (a *app) describeCommand() *cobra.Command {
	var o describeOptions
	cmd := &cobra.Command{
		Use:   "describe REF | --catalog FOLDER",
		Short: "Show the inputs, outputs, secrets and digest of a step",
		Long: `describe prints the page of a step: its inputs and outputs, the environment variables and secrets it requests, the steps it
uses, its content digest, and who signed it. REF is what a job would use: ./hello, or a step in a repository, an archive or
an image.

With --catalog it writes a page for every step below FOLDER, and an index in README.md, to --output.

Exit codes: 0 success · 2 usage · 3 invalid definition · 4 not allowed · 5 internal error · 6 not found`,
		Example: `  step-runner describe ./hello
  step-runner describe gitlab.com/group/steps/-/hello@v1 --format markdown
  step-runner describe --catalog steps --format markdown --output docs/steps \\
    --as gitlab.com/group/steps/-/@v1`,
		Args: command.Arguments(1, 1, "the step to describe"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.describe(cmd.Context(), args[0], &o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.format, "format", "f", "text", "print `FORMAT`: text, json or markdown")
	f.BoolVar(&o.json, "json", false, "print JSON (--format json)")
	f.StringArrayVarP(&o.keys, "key", "k", nil, "check signatures with the public key in `FILE`; can be repeated")
	f.BoolVar(&o.catalog, "catalog", false, "describe every step below a folder")
	f.StringVarP(&o.out, "output", "o", "", "write the pages of a catalog to `DIR`")
	f.StringVar(&o.base, "as", "", "in the pages of a catalog, refer to steps as `REF`, with the step's folder inserted before its @")
	o.from.Declare(f)
	cmd.ValidArgsFunction = components.CompleteReference
	command.Complete(cmd, "format", "text", "json", "markdown")
	return cmd
}

func (a *app) describe(ctx context.Context, arg string, o *describeOptions) error {
	if o.json {
		o.format = "json"
	}
	if !slices.Contains([]string{"text", "json", "markdown"}, o.format) {
		return exit.Usage("--format must be text, json or markdown, not %q", o.format)
	}
	if (o.out != "" || o.base != "") && !o.catalog {
		return exit.Usage("--output and --as require --catalog")
	}
	folder, err := engine.MakeFolder()
	if err != nil {
		return exit.Coded(exit.System, "making a folder to work in: %v", err)
	}
	defer engine.RemoveFolder(folder)
	dir, err := os.Getwd()
	if err != nil {
		return exit.Coded(exit.System, "finding the current folder: %v", err)
	}
	resolver, err := o.from.Open(a.Program, folder, dir)
	if err != nil {
		return err
	}
	d := &describer{app: a, from: resolver, dir: dir, o: o}
	if len(o.keys) > 0 {
		trusted, _, err := (&keys.TrustedKeys{Files: o.keys}).Open()
		if err != nil {
			return err
		}
		for _, key := range trusted {
			d.keys = append(d.keys, key.PublicKey)
		}
	}
	ctx, stop := components.Fetching(ctx, a.Program, 0)
	defer stop()
	if o.catalog {
		return d.catalog(ctx, arg)
	}
	page, err := d.page(ctx, arg)
	if err != nil {
		return err
	}
	return d.print(a.Stdout, page)
}

// describer makes pages.
type describer struct {
	app  *app
	from *source.Resolver
	dir  string
	o    *describeOptions
	keys []signature.PublicKey
}

func (d *describer) page(ctx context.Context, arg string) (*describe.Page, error) {
	if info, err := os.Stat(arg); err == nil && !strings.HasPrefix(arg, ".") && !filepath.IsAbs(arg) && (info.IsDir() || !components.IsArchive(arg)) {
		arg = "./" + filepath.ToSlash(arg)
	}
	ref, err := gitlabsteps.ParseStaticReference(arg, diag.Span{})
	if err != nil {
		return nil, exit.Coded(exit.NotFound, "%q is neither a folder nor a reference: %v", arg, err).Hinted("write a step in a folder as ./FOLDER")
	}
	component, err := d.from.Load(ctx, ref, d.dir)
	if err != nil {
		return nil, err
	}
	name := gitlabsteps.NameFor(ref)
	if ref.Kind == plan.RefLocal && (ref.Path[len(ref.Path)-1] == "." || ref.Path[len(ref.Path)-1] == "..") {
		name = filepath.Base(component.Dir)
	}
	if ref.Kind == plan.RefLocal && component.Origin == nil { // whose digest may be that of the definition alone
		if digest, err := tree.Digest(component.Dir); err == nil {
			component.Digest = digest
		}
	}
	page := describe.Of(name, component)
	page.Reference = source.WithoutUserinfo(page.Reference)
	page.Signed, err = d.signers(component)
	return page, err
}

// signers says who signed a component. A signature over other files is one of nobody.
func (d *describer) signers(c *source.Component) ([]describe.Signer, error) {
	text, err := d.from.Envelope(c)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	envelope, err := signature.ParseEnvelope(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source.SignatureFile, err)
	}
	covers := envelope.CoversComponent(c.Digest) == nil
	checks, _ := envelope.Verify(d.keys, 1) // the statuses say it all
	var signers []describe.Signer
	for _, check := range checks {
		s := describe.Signer{Key: check.KeyID, Status: string(check.Status)}
		if !covers {
			s.Status = "of other files"
		}
		signers = append(signers, s)
	}
	return signers, nil
}

func (d *describer) print(w io.Writer, page *describe.Page) error {
	switch d.o.format {
	case "json":
		return command.WriteJSON(w, page)
	case "markdown":
		return page.Markdown(w)
	default:
		return page.Text(w)
	}
}

// catalog makes a page for every step below a folder.
func (d *describer) catalog(ctx context.Context, root string) error {
	var pages []*describe.Page
	err := filepath.WalkDir(root, func(full string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && full != root:
			return fs.SkipDir
		case entry.IsDir() || entry.Name() != plan.DefaultFile && entry.Name() != plan.FallbackFile:
			return nil
		}
		dir, err := filepath.Abs(filepath.Dir(full))
		if err != nil {
			return err
		}
		if entry.Name() == plan.FallbackFile {
			if _, err := os.Stat(filepath.Join(dir, plan.DefaultFile)); err == nil {
				return nil // the folder is found by the other file
			}
		}
		page, err := d.page(ctx, filepath.ToSlash(dir))
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(full))
		if err != nil {
			return err
		}
		page.Name = filepath.ToSlash(rel)
		if page.Name == "." {
			page.Name = filepath.Base(dir)
		}
		page.Reference = d.called(filepath.ToSlash(rel))
		pages = append(pages, page)
		return nil
	})
	if err != nil {
		return err
	}
	if len(pages) == 0 {
		return exit.Coded(exit.NotFound, "there is no %s or %s below %s", plan.DefaultFile, plan.FallbackFile, root)
	}
	if d.o.out == "" {
		return d.printAll(pages)
	}
	return d.writeAll(pages, root)
}

// called is how a job refers to a step of a catalog.
func (d *describer) called(folder string) string {
	if d.o.base == "" {
		return "./" + strings.TrimPrefix(folder, "./")
	}
	before, rev, ok := strings.Cut(d.o.base, "/@")
	if !ok {
		return path.Join(d.o.base, folder)
	}
	return before + "/" + folder + "@" + rev
}

func (d *describer) printAll(pages []*describe.Page) error {
	if d.o.format == "json" {
		return command.WriteJSON(d.app.Stdout, pages)
	}
	for i, page := range pages {
		if i > 0 {
			fmt.Fprintln(d.app.Stdout)
		}
		if err := d.print(d.app.Stdout, page); err != nil {
			return err
		}
	}
	return nil
}

func (d *describer) writeAll(pages []*describe.Page, root string) error {
	suffix := map[string]string{"text": ".txt", "json": ".json", "markdown": ".md"}[d.o.format]
	link := func(p *describe.Page) string { return strings.ReplaceAll(p.Name, "/", "-") + suffix }
	if err := os.MkdirAll(d.o.out, 0o755); err != nil {
		return err
	}
	for _, page := range pages {
		var text bytes.Buffer
		if err := d.print(&text, page); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(d.o.out, link(page)), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	var list bytes.Buffer
	if err := describe.Catalog(&list, "Steps in "+filepath.ToSlash(filepath.Clean(root)), pages, link); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.o.out, "README.md"), list.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(d.app.Stderr, "%d pages in %s\n", len(pages), d.o.out)
	return nil
}
