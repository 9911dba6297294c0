package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// A remote is a conversation with a repository on another machine. It is used for one list of refs, then for one pack. Its
// errors are the package's own, see explain.
type remote interface {
	// refs asks what there is.
	refs(ctx context.Context) (*refs, error)
	// uploadPack sends a request and returns the answer, which is to be closed. It is called after refs.
	uploadPack(ctx context.Context, request []byte) (io.ReadCloser, error)
	close()
}

// order is what to fetch.
type order struct {
	wants   []plumbing.Hash
	haves   []plumbing.Hash // commits that are here with all of their files
	shallow []plumbing.Hash // commits that are here without their history
	depth   int             // 0 is everything
	tags    bool            // with the annotated tags that are about what is sent
	agent   string          // "" is userAgent
	filter  string          // which objects to leave out, where the server knows about that; "" is none
}

// userAgent is how servers know us; some look for "git/".
const userAgent = "git/2.0 (step-runner)"

// encode writes an order as a request for a server with the capabilities.
func (o *order) encode(caps map[string]bool) []byte {
	options := []string{"ofs-delta", "no-progress"}
	for _, c := range []string{"multi_ack_detailed", "side-band-64k"} {
		if caps[c] {
			options = append(options, c)
		}
	}
	if len(o.haves) > 0 && caps["thin-pack"] {
		// Without it a server sends everything again, because commits without history have no relation to each other.
		options = append(options, "thin-pack")
	}
	filter := o.filter != "" && caps["filter"]
	if filter {
		options = append(options, "filter")
	}
	if o.tags && caps["include-tag"] {
		options = append(options, "include-tag")
	}
	agent := o.agent
	if agent == "" {
		agent = userAgent
	}
	options = append(options, "agent="+strings.ReplaceAll(agent, " ", "-"))
	var out []byte
	for i, want := range o.wants {
		line := "want " + want.String()
		if i == 0 {
			line += " " + strings.Join(options, " ")
		}
		out = appendPacket(out, line+"\n")
	}
	if caps["shallow"] {
		for _, h := range o.shallow {
			out = appendPacket(out, "shallow "+h.String())
		}
		if o.depth > 0 {
			out = appendPacket(out, fmt.Sprintf("deepen %d", o.depth))
		}
	}
	if filter {
		out = appendPacket(out, "filter "+o.filter)
	}
	out = append(out, flushPacket...)
	for _, h := range o.haves {
		out = appendPacket(out, "have "+h.String()+"\n")
	}
	return appendPacket(out, "done\n")
}

// answer is what a server sends for an order. It reads as the pack.
type answer struct {
	shallow []plumbing.Hash // commits that come without their history
	in      *packets
	rest    []byte // of the current packet
	bare    bool   // the pack comes as it is, not in packets
	done    bool
}

// readAnswer reads what comes before the pack.
func readAnswer(p *packets, o *order, caps map[string]bool) (*answer, error) {
	a := &answer{in: p, bare: !caps["side-band-64k"]}
	if o.depth > 0 && caps["shallow"] {
		if err := a.readShallow(); err != nil {
			return nil, err
		}
	}
	for { // acknowledgements, until the pack begins
		if a.bare {
			if head, err := p.in.Peek(4); err == nil && string(head) == "PACK" {
				return a, nil
			}
		}
		payload, flush, err := p.next()
		if err != nil {
			return nil, unexpectedEOF(err)
		}
		text := strings.TrimSuffix(string(payload[:min(len(payload), 2*maxRemoteText)]), "\n")
		switch {
		case flush:
		case strings.HasPrefix(text, "ACK "), text == "NAK":
		case strings.HasPrefix(text, "ERR "):
			return nil, &remoteError{clean(text[4:])}
		case !a.bare && text != "" && text[0] <= 3:
			return a, a.band(payload)
		default:
			return nil, errNotGit
		}
	}
}

func (a *answer) readShallow() error {
	for {
		text, flush, err := a.in.line()
		if err != nil {
			return unexpectedEOF(err)
		}
		if flush {
			return nil
		}
		kind, hash, _ := strings.Cut(text, " ")
		if !isCommitName(hash) || kind != "shallow" && kind != "unshallow" {
			return errNotGit
		}
		if kind == "shallow" {
			a.shallow = append(a.shallow, plumbing.NewHash(hash))
		}
	}
}

// The bands of a packet after acknowledgements.
const (
	bandPack     = 1
	bandProgress = 2
	bandError    = 3
)

func (a *answer) band(payload []byte) error {
	if len(payload) == 0 {
		return nil // keeps the line open
	}
	switch payload[0] {
	case bandPack:
		a.rest = payload[1:]
	case bandProgress:
	case bandError:
		return &remoteError{clean(string(payload[1:]))}
	default:
		return errNotGit
	}
	return nil
}

// Read reads the pack. It ends where the server says so; a connection that ends before that is io.ErrUnexpectedEOF.
func (a *answer) Read(to []byte) (int, error) {
	if a.bare {
		return a.in.in.Read(to)
	}
	for len(a.rest) == 0 {
		if a.done {
			return 0, io.EOF
		}
		payload, flush, err := a.in.next()
		if err != nil {
			return 0, unexpectedEOF(err)
		}
		if a.done = flush; flush {
			continue
		}
		if err := a.band(payload); err != nil {
			return 0, err
		}
	}
	n := copy(to, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// errNoPack says that a server sent nothing at all.
var errNoPack = errors.New("the server sent nothing")

// fetchPack sends an order over a remote of which the refs were read, and gives the pack to receive.
func fetchPack(ctx context.Context, r remote, have *refs, o *order, receive func(*answer) error) error {
	body, err := r.uploadPack(ctx, o.encode(have.caps))
	if err != nil {
		return err
	}
	defer body.Close()
	a, err := readAnswer(newPackets(body), o, have.caps)
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: %w", errNoPack, err)
		}
		return err
	}
	return receive(a)
}
