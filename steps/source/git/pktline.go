package git

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A packet line is four hexadecimal digits, which are its length with them, and that much less four of payload. Length 0 is a
// flush, which ends a part of a conversation.

const maxPacket = 65520

// appendPacket appends a packet line.
func appendPacket(to []byte, payload string) []byte {
	return append(fmt.Appendf(to, "%04x", len(payload)+4), payload...)
}

var flushPacket = []byte("0000")

// packets reads packet lines.
type packets struct {
	in  *bufio.Reader
	buf [maxPacket]byte
}

func newPackets(r io.Reader) *packets { return &packets{in: bufio.NewReaderSize(r, 64<<10)} }

// errNotGit says that what was answered is not Git's protocol.
var errNotGit = errors.New("what it answers is not Git's protocol")

// next returns the payload of the next packet line, which is valid until the next call; flush is true for a flush.
func (p *packets) next() (payload []byte, flush bool, err error) {
	if _, err := io.ReadFull(p.in, p.buf[:4]); err != nil {
		return nil, false, err
	}
	n, err := strconv.ParseUint(string(p.buf[:4]), 16, 16)
	if err != nil || n > maxPacket || n > 0 && n < 4 {
		return nil, false, errNotGit
	}
	if n == 0 {
		return nil, true, nil
	}
	payload = p.buf[:n-4]
	if _, err := io.ReadFull(p.in, payload); err != nil {
		return nil, false, unexpectedEOF(err)
	}
	return payload, false, nil
}

// line is next for packets of text; an error that the server reports is an error.
func (p *packets) line() (text string, flush bool, err error) {
	payload, flush, err := p.next()
	if err != nil || flush {
		return "", flush, err
	}
	text = strings.TrimSuffix(string(payload), "\n")
	if message, ok := strings.CutPrefix(text, "ERR "); ok {
		return "", false, &remoteError{clean(message)}
	}
	return text, false, nil
}

func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// remoteError is what a server says about why it will not do something.
type remoteError struct{ message string }

func (e *remoteError) Error() string { return fmt.Sprintf("the server says %q", e.message) }

// notOurs reports whether the server means that it does not have, or does not give out, the commit that was asked for.
func (e *remoteError) notOurs() bool {
	return strings.Contains(e.message, "not our ref") || strings.Contains(e.message, "unadvertised object") ||
		strings.Contains(e.message, "not a valid object") || strings.Contains(e.message, "bad object")
}

// maxRemoteText is how much of a server's text is shown, in bytes.
const maxRemoteText = 400

// clean makes a server's text fit for one line of a terminal.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) > maxRemoteText {
		text = strings.ToValidUTF8(text[:maxRemoteText], "") + "…"
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
