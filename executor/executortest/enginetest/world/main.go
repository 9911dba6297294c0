// World plays the internet for tests: world NAME=ADDRESS[,ADDRESS...]... It answers at every address that its container has, and prints a line for
// all that arrives there: the protocol, the address and port, and what came, quoted as Go does it.
//
//	tcp    ports 22 and 80: the page "reached ADDRESS", whatever is asked
//	udp    port 53: a name server of the names; port 80: what came comes back
//	icmp   echoes, by the kernel
//
// A name *.DOMAIN=… stands for every name below DOMAIN. A name with "rebind" in it leads to its addresses by turns, one for each question, and can be kept by
// nobody: its answers are valid for no time.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

func main() {
	zone := &names{of: map[string][]netip.Addr{}, asked: map[string]int{}}
	for _, arg := range os.Args[1:] {
		name, list, _ := strings.Cut(arg, "=")
		for text := range strings.SplitSeq(list, ",") {
			zone.of[name] = append(zone.of[name], netip.MustParseAddr(text))
		}
	}
	for _, port := range []int{22, 80} {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{Port: port})
		must(err)
		go pages(l)
	}
	all, err := net.InterfaceAddrs()
	must(err)
	for _, at := range all {
		address := at.(*net.IPNet).IP // each has a socket of its own, so that answers come from where questions went
		if address.IsLinkLocalUnicast() && address.To4() == nil {
			continue // it is not there from the beginning
		}
		for port, answer := range map[int]func(string, []byte) []byte{53: zone.answer, 80: func(_ string, text []byte) []byte { return text }} {
			l, err := net.ListenUDP("udp", &net.UDPAddr{IP: address, Port: port})
			must(err)
			go datagrams(l, answer)
		}
		if address.To4() != nil {
			l, err := net.ListenIP("ip4:icmp", &net.IPAddr{IP: address})
			must(err)
			go datagrams(l, nil)
		}
	}
	say("ready", "", nil)
	select {}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var lock sync.Mutex

// say prints a line.
func say(protocol, at string, text []byte) {
	lock.Lock()
	defer lock.Unlock()
	fmt.Printf("%s %s %q\n", protocol, at, text)
}

// pages serves one page to whoever connects, and prints all that they send, also after the page.
func pages(l net.Listener) {
	for {
		conn, err := l.Accept()
		must(err)
		go func() {
			defer conn.Close()
			local := conn.LocalAddr().(*net.TCPAddr).AddrPort()
			at := netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
			say("tcp", at.String(), nil)
			var all []byte
			for text := make([]byte, 64<<10); ; {
				_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second))
				n, err := conn.Read(text)
				if n > 0 {
					say("tcp", at.String(), text[:n])
				}
				if err != nil {
					return
				}
				if had := bytes.Contains(all, []byte("\r\n\r\n")); !had {
					if all = append(all, text[:n]...); bytes.Contains(all, []byte("\r\n\r\n")) {
						page := "reached " + at.Addr().String() + "\n"
						_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
						if bytes.Contains(all, []byte(" HTTP/1.0\r\n")) {
							_ = conn.(*net.TCPConn).CloseWrite()
						}
					}
				}
			}
		}()
	}
}

// datagrams prints what arrives at a socket, and answers.
func datagrams(l net.PacketConn, answer func(at string, text []byte) []byte) {
	at := l.LocalAddr()
	for text := make([]byte, 64<<10); ; {
		n, from, err := l.ReadFrom(text)
		if err != nil {
			continue
		}
		say(at.Network(), at.String(), text[:n])
		if answer == nil {
			continue
		}
		if back := answer(at.String(), text[:n]); back != nil {
			_, _ = l.WriteTo(back, from)
		}
	}
}

// names is what a name server knows.
type names struct {
	of    map[string][]netip.Addr
	mu    sync.Mutex
	asked map[string]int // questions for a name that changes
}

// answer answers one question of DNS (RFC 1035); nil answers nothing.
func (z *names) answer(at string, query []byte) []byte {
	const header, notFound = 12, 3
	if len(query) < header || query[2]&0x80 != 0 || binary.BigEndian.Uint16(query[4:]) != 1 {
		return nil
	}
	end, labels := header, []string{}
	for end < len(query) && query[end] != 0 {
		next := end + 1 + int(query[end])
		if query[end] > 63 || next >= len(query) {
			return nil
		}
		labels = append(labels, strings.ToLower(string(query[end+1:next])))
		end = next
	}
	if end+5 > len(query) {
		return nil
	}
	kind, name := binary.BigEndian.Uint16(query[end+1:]), strings.Join(labels, ".")
	say("dns", at, []byte(name))
	out := bytes.Clone(query[:end+5])
	out[2], out[3] = 0x84|query[2]&1, 0x80
	copy(out[6:header], make([]byte, header-6))
	found, known := z.find(name, kind)
	if !known {
		out[3] |= notFound
	}
	for _, address := range found {
		value := address.AsSlice()
		out = append(out, 0xc0, header)                                                // the name of the question
		out = binary.BigEndian.AppendUint16(out, kind)                                 // A or AAAA
		out = append(out, 0, 1, 0, 0, 0, 0)                                            // of the internet, for no time
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(value))), value...) //nolint:gosec // 4 or 16
		out[7]++
	}
	return out
}

// find are the addresses of a name that a question of a kind is answered by.
func (z *names) find(name string, kind uint16) (found []netip.Addr, known bool) {
	all, known := z.of[name]
	for below := name; !known && below != ""; {
		_, below, _ = strings.Cut(below, ".")
		all, known = z.of["*."+below]
	}
	const a, aaaa = 1, 28
	for _, address := range all {
		if address.Is4() && kind == a || !address.Is4() && kind == aaaa {
			found = append(found, address)
		}
	}
	if strings.Contains(name, "rebind") && len(found) > 1 {
		z.mu.Lock()
		defer z.mu.Unlock()
		n := z.asked[name] % len(found)
		z.asked[name]++
		found = found[n : n+1]
	}
	return found, known
}
