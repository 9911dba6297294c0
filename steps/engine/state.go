package engine

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// StateFormat names the format of a state's document and its version.
const StateFormat = "rung.state/v1"

// Limits of a state, which comes from outside.
const (
	// MaxState bounds the document and the sensitive texts of a state together, in bytes.
	MaxState = 24 << 20
	// MaxSensitive bounds how many sensitive texts a state has.
	MaxSensitive = 100_000
)

// State is all that another process needs to go on with a run, beside what the run was started with: the same component, inputs, job
// variables and secrets have to be given again.
type State struct {
	// Document is canonical JSON. It holds nothing sensitive: a secret of the run stands in it as its name, any other sensitive text as a
	// number in Sensitive.
	Document []byte
	// Sensitive are the sensitive texts that came up in the run. They are in clear: keep them as you keep secrets.
	Sensitive [][]byte
}

// document is the document of a state.
type document struct {
	Format    string        `json:"format"`
	Run       string        `json:"run"`    // the ID of the run that it was taken from
	Before    string        `json:"before"` // the ID of the next step
	Component string        `json:"component"`
	Inputs    string        `json:"inputs"` // these are keyed digests of what has to be given again
	Job       string        `json:"job"`
	Secrets   []secretSeal  `json:"secrets,omitempty"`
	DigestKey string        `json:"digest_key"` // in hexadecimal
	WorkDir   text          `json:"work_dir"`
	HostHome  bool          `json:"host_home,omitempty"`
	Folder    string        `json:"folder"`          // the run's own
	Files     bool          `json:"files,omitempty"` // there are files in it
	Limit     time.Duration `json:"limit,omitempty"` // of the whole run; 0 is none
	Left      time.Duration `json:"left,omitempty"`  // of Limit

	Base       []encodedVariable   `json:"base"`
	Env        []encodedVariable   `json:"env"`
	Context    encodedValue        `json:"context"`
	Steps      []encodedField      `json:"steps"` // results, as expressions read them
	List       encodedList         `json:"list"`
	Background []encodedBackground `json:"background,omitempty"`

	Names      []text             `json:"names,omitempty"` // of hooks
	Told       []string           `json:"told,omitempty"`
	Hooks      []encodedHook      `json:"hooks,omitempty"`
	Posts      []int              `json:"posts,omitempty"` // in Hooks, in the order in which they were put on the stack
	Components []encodedComponent `json:"components,omitempty"`

	Masks    []text           `json:"masks,omitempty"`
	MadeUp   []text           `json:"made_up,omitempty"`
	Services []encodedService `json:"services,omitempty"`

	next int // Before, as a number
}

// secretSeal is a secret that has to be given again.
type secretSeal struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

type encodedVariable struct {
	Name      text `json:"name"`
	Text      text `json:"text"`
	Sensitive bool `json:"sensitive,omitempty"`
}

type encodedField struct {
	Name  text         `json:"name"`
	Value encodedValue `json:"value"`
}

type encodedList struct {
	Failed    bool            `json:"failed,omitempty"`
	Cancelled bool            `json:"cancelled,omitempty"`
	Cut       bool            `json:"cut,omitempty"`
	First     *encodedOutcome `json:"first,omitempty"`
	Counts    event.Counts    `json:"counts"`
}

type encodedOutcome struct {
	Status   event.Status      `json:"status"`
	Allowed  bool              `json:"allowed,omitempty"`
	Outputs  []encodedField    `json:"outputs,omitempty"`
	Exports  []encodedVariable `json:"exports,omitempty"`
	ExitCode *int              `json:"exit_code,omitempty"`
	Error    *event.Error      `json:"error,omitempty"`
	Counts   event.Counts      `json:"counts"`
	Cut      bool              `json:"cut,omitempty"`
	Late     string            `json:"late,omitempty"`
}

// encodedBackground is a background step that has ended, or was waited for.
type encodedBackground struct {
	Step    string            `json:"step"`
	Asked   bool              `json:"asked,omitempty"`
	Settled bool              `json:"settled,omitempty"`
	Exports []encodedVariable `json:"exports,omitempty"` // those that the list sees when it waits
	Outcome *encodedOutcome   `json:"outcome,omitempty"` // nil once it is settled
}

type encodedHook struct {
	Step  string            `json:"step"`
	Early bool              `json:"early,omitempty"` // its Pre ran
	Pre   bool              `json:"pre,omitempty"`   // its Pre had its turn
	State []encodedVariable `json:"state,omitempty"`
	Given encodedGiven      `json:"given"`
	Scope *encodedScope     `json:"scope,omitempty"` // nil where its Post has run, or will not
	Over  []encodedVariable `json:"over,omitempty"`
}

type encodedGiven struct {
	Inputs  []encodedField    `json:"inputs,omitempty"`
	Env     []encodedVariable `json:"env,omitempty"`
	Secrets []text            `json:"secrets,omitempty"`
}

// encodedScope is the scope of a Post. What its component says is read again.
type encodedScope struct {
	Path    text              `json:"path,omitzero"`
	Depth   int               `json:"depth,omitempty"`
	Top     bool              `json:"top,omitempty"`
	Inputs  encodedValue      `json:"inputs"`
	Context encodedValue      `json:"context"`
	Steps   []encodedField    `json:"steps,omitempty"`
	Shared  bool              `json:"shared,omitempty"` // the steps are those of the run's own list, later ones too
	Own     []encodedVariable `json:"own,omitempty"`
	Secrets []encodedVariable `json:"secrets,omitempty"`
	Known   []encodedVariable `json:"known,omitempty"`
}

// encodedComponent is the component of a step that holds a hook.
type encodedComponent struct {
	Step      string          `json:"step"`
	Reference *plan.Reference `json:"reference"`
	Plan      string          `json:"plan"`             // a digest of its definition
	Digest    string          `json:"digest,omitempty"` // of its folder, where it was fetched
}

type encodedService struct {
	Name  text `json:"name"`
	Saved text `json:"saved"`
}

// ParseState reads a state from anywhere. It has the right form then; Fits says whether it is that of a run.
func ParseState(encoded []byte, sensitive [][]byte) (*State, error) {
	s := &State{Document: encoded, Sensitive: sensitive}
	if _, err := s.open(func(string) (string, error) { return "", nil }, ""); err != nil {
		return nil, err
	}
	return s, nil
}

// Before is the ID of the step that a run goes on with; "" where the state was not read by ParseState.
func (s *State) Before() string {
	var head struct{ Before string }
	if json.Unmarshal(s.Document, &head) != nil {
		return ""
	}
	return head.Before
}

// open reads the document. Its texts are moved to folder, unless that is "".
func (s *State) open(secret func(name string) (string, error), folder string) (*document, error) {
	size := len(s.Document)
	for _, sensitive := range s.Sensitive {
		size += len(sensitive)
	}
	switch {
	case size > MaxState:
		return nil, fmt.Errorf("the state is larger than %d MiB", MaxState>>20)
	case len(s.Sensitive) > MaxSensitive:
		return nil, fmt.Errorf("the state has more than %d sensitive texts", MaxSensitive)
	case !utf8.Valid(s.Document):
		return nil, errors.New("the state is not UTF-8")
	}
	tree, err := parseTree(s.Document)
	if err != nil {
		return nil, fmt.Errorf("the state is not JSON: %w", err)
	}
	head, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("the state is not a JSON object")
	}
	if head["format"] != StateFormat {
		return nil, fmt.Errorf("the state has the format %.40q; this version reads %q", fmt.Sprint(head["format"]), StateFormat)
	}
	if again, err := canonicalJSON(tree); err != nil || !bytes.Equal(again, s.Document) {
		return nil, errors.New("the state is not in its canonical form: it was changed or is incomplete")
	}
	from, _ := head["folder"].(string)
	revealed, err := (&revealer{sensitive: s.Sensitive, secret: secret, from: from, to: folder}).reveal(tree)
	if err != nil {
		return nil, fmt.Errorf("invalid state: %w", err)
	}
	plain, err := canonicalJSON(revealed)
	if err != nil {
		return nil, fmt.Errorf("invalid state: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.DisallowUnknownFields()
	d := &document{}
	if err := dec.Decode(d); err != nil {
		return nil, fmt.Errorf("invalid state: %w", err)
	}
	if written, err := d.plain(); err != nil || !bytes.Equal(written, plain) {
		return nil, errors.New("the state is wrong: something in it is missing, or has another form than this version gives it")
	}
	d.Folder = from
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("invalid state: %w", err)
	}
	return d, nil
}

// plain is what the document would be if all its texts stood in it.
func (d *document) plain() ([]byte, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	tree, err := parseTree(data)
	if err != nil {
		return nil, err
	}
	if tree, err = uncover(tree); err != nil {
		return nil, err
	}
	return canonicalJSON(tree)
}

// check holds the document against what its fields may be.
func (d *document) check() error {
	var err error
	if d.next, err = strconv.Atoi(d.Before); err != nil || d.next < 1 || strconv.Itoa(d.next) != d.Before {
		return fmt.Errorf("%.40q is not the ID of a step of the run's own list", d.Before)
	}
	if key, err := hex.DecodeString(d.DigestKey); err != nil || len(key) != digestKeySize {
		return errors.New("the digest key is invalid")
	}
	if d.Limit < 0 || d.Left < 0 || d.Left > d.Limit {
		return errors.New("the remaining time is invalid")
	}
	for _, vars := range [][]encodedVariable{d.Base, d.Env} {
		for _, v := range vars {
			if err := checkVariable(v.Name.string, v.Text.string); err != nil {
				return err
			}
		}
	}
	if err := d.List.check(); err != nil {
		return err
	}
	for _, b := range d.Background {
		if b.Settled != (b.Outcome == nil) {
			return fmt.Errorf("the background step %.40q has an outcome exactly when nobody has waited for it", b.Step)
		}
		if err := b.Outcome.check(); err != nil {
			return err
		}
	}
	for i, at := range d.Posts {
		if at < 0 || at >= len(d.Hooks) || slices.Contains(d.Posts[:i], at) {
			return fmt.Errorf("post %d is not a hook", i)
		}
	}
	for _, h := range d.Hooks {
		if h.Scope != nil && (h.Scope.Depth < 0 || h.Scope.Depth > MaxDepth) {
			return fmt.Errorf("the hook of step %.40q is at an impossible depth", h.Step)
		}
	}
	for _, c := range d.Components {
		if c.Reference == nil {
			return fmt.Errorf("the component of step %.40q has no reference", c.Step)
		}
	}
	return nil
}

func (l *encodedList) check() error {
	if (l.First != nil) != (l.Failed || l.Cancelled) {
		return errors.New("a list has failed exactly when a step of it has")
	}
	if l.First != nil && l.First.Status != event.Failure && l.First.Status != event.Cancelled {
		return errors.New("the step that decided the failure of a list did not fail")
	}
	if err := checkCounts(l.Counts); err != nil {
		return err
	}
	return l.First.check()
}

func (o *encodedOutcome) check() error {
	if o == nil {
		return nil
	}
	if !slices.Contains([]event.Status{event.Success, event.Failure, event.Cancelled, event.Skipped}, o.Status) {
		return fmt.Errorf("%.40q is not how a step can end", o.Status)
	}
	if stopped := o.Status == event.Failure || o.Status == event.Cancelled; stopped && o.Error == nil {
		return errors.New("a step failed without an error")
	}
	if o.Error != nil && o.Error.Kind.Code() == "" {
		return fmt.Errorf("%.40q is not a kind of error", o.Error.Kind)
	}
	return checkCounts(o.Counts)
}

func checkCounts(c event.Counts) error {
	if min(c.Success, c.Failure, c.Allowed, c.Cancelled, c.Skipped) < 0 {
		return errors.New("a count is less than 0")
	}
	return nil
}

// Fits says what keeps a run with the options from going on from the state: it is not the run that the state was taken from, or something
// that the state needs is missing. Folder is the one that the run's own files come from; "" is none.
func (s *State) Fits(opts *Options, folder string) error {
	_, err := s.fit(opts, folder, "")
	return err
}

// fit opens the state for a run with the options, whose own folder is the given one.
func (s *State) fit(opts *Options, files, folder string) (*document, error) {
	d, err := s.open(func(name string) (string, error) {
		secret, ok := opts.Secrets[name]
		if !ok {
			return "", fmt.Errorf("the secret %q must be passed again", name)
		}
		return secret, nil
	}, folder)
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(d.DigestKey)
	if err != nil {
		return nil, err
	}
	seal, err := sealOf(opts, func(s string) string { return Digest(key, s) })
	if err != nil {
		return nil, err
	}
	switch {
	case d.Component != seal.Component:
		return nil, errors.New("the state belongs to a run of other steps")
	case d.Inputs != seal.Inputs:
		return nil, errors.New("the state belongs to a run with other inputs")
	case d.Job != seal.Job:
		return nil, errors.New("the state belongs to a run with other job variables, files or locked components")
	case d.WorkDir.string != opts.WorkDir:
		return nil, fmt.Errorf("the run was in the work directory %s and cannot go on in %s", d.WorkDir.string, opts.WorkDir)
	case d.HostHome != opts.HostHome:
		return nil, errors.New("the run and this one differ in whether steps use the user's home")
	case d.Files && files == "":
		return nil, errors.New("the run left files in its own folders (home, temporary files): pass the folder that they were copied to")
	}
	for _, want := range d.Secrets {
		secret, ok := opts.Secrets[want.Name]
		if !ok {
			return nil, fmt.Errorf("the secret %q must be passed again", want.Name)
		}
		if Digest(key, secret) != want.Digest {
			return nil, fmt.Errorf("the secret %q differs from the run's", want.Name)
		}
	}
	if len(opts.Secrets) != len(d.Secrets) {
		return nil, errors.New("the run did not have all of these secrets")
	}
	return d, nil
}

// sealOf returns a document with the digests of what a run is started with. The run's own folder is left out of job variables: those that
// are files have a path in it.
func sealOf(opts *Options, digest func(string) string) (*document, error) {
	component, err := plan.Canonical(opts.Component)
	if err != nil {
		return nil, err
	}
	inputs, err := json.Marshal(encodedFields(opts.Inputs))
	if err != nil {
		return nil, err
	}
	var job []encodedVariable
	for _, name := range slices.Sorted(maps.Keys(opts.Job)) {
		v := opts.Job[name]
		if opts.Folder != "" {
			v.Value = relocated(v.Value, opts.Folder, folderSlot)
		}
		job = append(job, encodedVariable{text{string: name}, text{string: v.Value}, v.Sensitive})
	}
	same := []any{job, opts.Mask, opts.Given}
	if opts.InheritEnv {
		same = append(same, "inherit_env")
	}
	if opts.Confine != "" && opts.Confine != plan.ConfineNone {
		same = append(same, "confine", opts.Confine)
	}
	variables, err := json.Marshal(same)
	if err != nil {
		return nil, err
	}
	d := &document{Component: digest(string(component)), Inputs: digest(string(inputs)), Job: digest(string(variables))}
	for _, name := range slices.Sorted(maps.Keys(opts.Secrets)) {
		d.Secrets = append(d.Secrets, secretSeal{name, digest(opts.Secrets[name])})
	}
	return d, nil
}

// folderSlot stands for the run's own folder where it must not matter.
const folderSlot = "\x00folder"
