//go:build unix

package winrm_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"crypto/rc4"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf16"

	"golang.org/x/crypto/md4" //nolint:staticcheck // NTLM is made of it
)

// ntlm is a server's side of NTLMv2 on one connection, with extended session security and a key exchange (MS-NLMP 3.3.2, 3.4). Names of
// messages and keys are those of that document.
type ntlm struct {
	user, password    string
	challenge         [8]byte
	known             bool
	signIn, signOut   []byte
	sealIn, sealOut   *rc4.Cipher
	countIn, countOut uint32
}

// ntlmFlags are UNICODE, REQUEST_TARGET, SIGN, SEAL, ALWAYS_SIGN, TARGET_TYPE_SERVER, EXTENDED_SESSIONSECURITY, TARGET_INFO, VERSION, 128, KEY_EXCH, 56.
const ntlmFlags = 1 | 4 | 0x10 | 0x20 | 0x8000 | 0x20000 | 0x80000 | 0x800000 | 0x2000000 | 0x20000000 | 0x40000000 | 0x80000000

func utf16le(text string) (out []byte) {
	for _, unit := range utf16.Encode([]rune(text)) {
		out = binary.LittleEndian.AppendUint16(out, unit)
	}
	return out
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(md5.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// authenticate answers a request that is not of a known client; done is that it is one now.
func (n *ntlm) authenticate(w http.ResponseWriter, r *http.Request) (done bool) {
	refuse := func(header string) bool {
		w.Header().Set("WWW-Authenticate", header)
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	text, is := strings.CutPrefix(r.Header.Get("Authorization"), "Negotiate ")
	message, err := base64.StdEncoding.DecodeString(text)
	if !is || err != nil || len(message) < 16 || !bytes.HasPrefix(message, []byte("NTLMSSP\x00")) {
		return refuse("Negotiate")
	}
	switch binary.LittleEndian.Uint32(message[8:]) {
	case 1:
		return refuse("Negotiate " + base64.StdEncoding.EncodeToString(n.challengeMessage()))
	case 3:
		if n.verify(message) == nil {
			n.known = true
			return true
		}
	}
	return refuse("Negotiate")
}

// challengeMessage is CHALLENGE_MESSAGE (2.2.1.2).
func (n *ntlm) challengeMessage() []byte {
	_, _ = rand.Read(n.challenge[:])
	name := utf16le("SERVER")
	var info []byte
	for _, pair := range []struct {
		id    uint16
		value []byte
	}{{2, name}, {1, name}, {0, nil}} {
		info = binary.LittleEndian.AppendUint16(info, pair.id)
		info = binary.LittleEndian.AppendUint16(info, uint16(len(pair.value)))
		info = append(info, pair.value...)
	}
	const header = 56
	m := append([]byte("NTLMSSP\x00"), 2, 0, 0, 0)
	field := func(length, at int) {
		m = binary.LittleEndian.AppendUint16(m, uint16(length))
		m = binary.LittleEndian.AppendUint16(m, uint16(length))
		m = binary.LittleEndian.AppendUint32(m, uint32(at))
	}
	field(len(name), header)
	m = binary.LittleEndian.AppendUint32(m, ntlmFlags)
	m = append(append(m, n.challenge[:]...), make([]byte, 8)...)
	field(len(info), header+len(name))
	m = append(m, 10, 0, 0, 0, 0, 0, 0, 15) // VERSION
	return append(append(m, name...), info...)
}

// verify checks AUTHENTICATE_MESSAGE (2.2.1.3) and makes the keys of the session.
func (n *ntlm) verify(m []byte) error {
	if len(m) < 64 {
		return errors.New("it is too short")
	}
	field := func(at int) []byte {
		length, offset := int(binary.LittleEndian.Uint16(m[at:])), int(binary.LittleEndian.Uint32(m[at+4:]))
		if offset+length > len(m) {
			return nil
		}
		return m[offset : offset+length]
	}
	response, domain, user, sealed := field(20), field(28), field(36), field(52)
	if len(response) < 16 || !bytes.Equal(user, utf16le(n.user)) || len(sealed) != 16 {
		return errors.New("it is somebody else, or no NTLMv2")
	}
	hash := md4.New()
	hash.Write(utf16le(n.password))
	key := mac(hash.Sum(nil), append(utf16le(strings.ToUpper(n.user)), domain...)) // NTOWFv2
	proof := mac(key, n.challenge[:], response[16:])
	if !hmac.Equal(proof, response[:16]) {
		return errors.New("the password is wrong")
	}
	exchange, err := rc4.NewCipher(mac(key, proof))
	if err != nil {
		return err
	}
	session := make([]byte, 16)
	exchange.XORKeyStream(session, sealed)
	derive := func(of string) []byte {
		sum := md5.Sum(append(bytes.Clone(session), of+"\x00"...))
		return sum[:]
	}
	n.signIn = derive("session key to client-to-server signing key magic constant")
	n.signOut = derive("session key to server-to-client signing key magic constant")
	if n.sealIn, err = rc4.NewCipher(derive("session key to client-to-server sealing key magic constant")); err == nil {
		n.sealOut, err = rc4.NewCipher(derive("session key to server-to-client sealing key magic constant"))
	}
	return err
}

// signature is NTLMSSP_MESSAGE_SIGNATURE (2.2.2.9.2).
func signature(key []byte, seal *rc4.Cipher, count uint32, message []byte) []byte {
	number := binary.LittleEndian.AppendUint32(nil, count)
	sum := mac(key, number, message)[:8]
	seal.XORKeyStream(sum, sum)
	return append(append([]byte{1, 0, 0, 0}, sum...), number...)
}

const (
	boundary   = "--Encrypted Boundary"
	sealedType = `multipart/encrypted;protocol="application/HTTP-SPNEGO-session-encrypted";boundary="Encrypted Boundary"`
	octets     = "Content-Type: application/octet-stream\r\n"
)

// open takes a message out of its seal (MS-WSMV 2.2.9.1).
func (n *ntlm) open(contentType string, body []byte) ([]byte, error) {
	if !strings.HasPrefix(contentType, "multipart/encrypted") {
		return nil, fmt.Errorf("a message of type %q is not sealed", contentType)
	}
	_, data, found := bytes.Cut(body, []byte(octets))
	data, _, ended := bytes.Cut(data, []byte(boundary+"--"))
	if !found || !ended || len(data) < 20 || binary.LittleEndian.Uint32(data) != 16 {
		return nil, errors.New("it is no sealed message")
	}
	sign, message := data[4:20], bytes.Clone(data[20:])
	n.sealIn.XORKeyStream(message, message)
	if !hmac.Equal(sign, signature(n.signIn, n.sealIn, n.countIn, message)) {
		return nil, errors.New("its signature is wrong")
	}
	n.countIn++
	return message, nil
}

// seal seals an answer.
func (n *ntlm) seal(message []byte) []byte {
	sealed := bytes.Clone(message)
	n.sealOut.XORKeyStream(sealed, sealed)
	sign := signature(n.signOut, n.sealOut, n.countOut, message)
	n.countOut++
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\r\n\tContent-Type: application/HTTP-SPNEGO-session-encrypted\r\n\tOriginalContent: type=application/soap+xml;charset=UTF-8;Length=%d\r\n%s\r\n\t%s", boundary, len(message), boundary, octets)
	b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(sign))))
	b.Write(sign)
	b.Write(sealed)
	b.WriteString(boundary + "--\r\n")
	return b.Bytes()
}
