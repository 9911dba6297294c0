//go:build linux

// Attacker does what a shell cannot, for hostile jobs: attacker memory MIB | connect SOCKET | handle FILE TYPE:HEX | ptrace PID | fds | listen SOCKET |
// answer TEXT | send tcp|udp|unix|icmp|link ADDRESS TEXT | urgent | watchers | terminals.
package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	does := map[string]func(args []string) error{
		"memory": memory, "connect": connect, "handle": handle, "ptrace": ptrace, "fds": fds, "listen": listen, "answer": answer, "send": send,
		"urgent": urgent, "watchers": watchers, "terminals": terminals,
	}
	if err := does[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Println("withstood:", err)
		os.Exit(1)
	}
}

// memory holds so many mebibytes.
func memory(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	held := make([]byte, n<<20)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	fmt.Println("holds", len(held)>>20, "MiB")
	return nil
}

// connect opens a socket, by a path, a name that begins with @, or HOST:PORT, and says something.
func connect(args []string) error {
	network := "unix"
	if strings.Contains(args[0], ":") {
		network = "tcp"
	}
	c, err := net.DialTimeout(network, args[0], time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.WriteString(c, "attacker\n")
	return err
}

// handle shows a file by its handle, on the file system that another file is on: the path to it does not matter.
func handle(args []string) error {
	at, err := unix.Open(args[0], unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	kind, text, _ := strings.Cut(args[1], ":")
	number, err := strconv.Atoi(kind)
	if err != nil {
		return err
	}
	bytes, err := hex.DecodeString(text)
	if err != nil {
		return err
	}
	fd, err := unix.OpenByHandleAt(at, unix.NewFileHandle(int32(number), bytes), unix.O_RDONLY)
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, os.NewFile(uintptr(fd), "handle"))
	return err
}

// ptrace attaches to a process.
func ptrace(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	name, err := os.ReadFile("/proc/" + args[0] + "/cmdline")
	if err != nil {
		return err
	}
	if err := unix.PtraceAttach(pid); err != nil {
		return err
	}
	fmt.Printf("attached to %q\n", name)
	var status unix.WaitStatus
	_, _ = unix.Wait4(pid, &status, 0, nil)
	return unix.PtraceDetach(pid)
}

// fds shows what was left open for it.
func fds([]string) error {
	for n := 3; n < 1024; n++ {
		name, err := os.Readlink(fmt.Sprint("/proc/self/fd/", n))
		if err == nil && !strings.HasPrefix(name, "/sys/fs/cgroup/") { // which Go itself has opened
			fmt.Println("inherited", n, name)
		}
	}
	return nil
}

// listen leaves a socket behind.
func listen(args []string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: args[0]})
	if err == nil {
		l.SetUnlinkOnClose(false)
		err = l.Close()
	}
	return err
}

// answer says at which addresses it listens, and says the text to everybody who asks.
func answer(args []string) error {
	l, err := net.Listen("tcp4", ":0")
	if err != nil {
		return err
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	text := "answers at"
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			text += " " + netip.AddrPortFrom(p.Addr(), uint16(l.Addr().(*net.TCPAddr).Port)).String()
		}
	}
	fmt.Println(text)
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_, _ = c.Read(make([]byte, 1))
		_, _ = io.WriteString(c, args[0])
		_ = c.Close()
	}
}

// urgent asks for a priority of -17, and for real-time scheduling at 37, and waits a while with what it got.
func urgent([]string) error {
	failed := unix.Setpriority(unix.PRIO_PROCESS, 0, -17)
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 37}
	err := unix.SchedSetAttr(0, &attr, 0)
	fmt.Println("priority:", failed, "real time:", err)
	time.Sleep(time.Second)
	return nil
}

// watchers takes all inotify instances that it can have, terminals all pseudo-terminals; both wait a while with them.
func watchers([]string) error {
	return take(func() (int, error) { return unix.InotifyInit1(unix.IN_CLOEXEC) })
}

func terminals([]string) error {
	return take(func() (int, error) { return unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0) })
}

func take(one func() (int, error)) error {
	most := uint64(20000)
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most})
	n := 0
	for n < int(most) {
		if _, err := one(); err != nil {
			fmt.Println("no more:", err)
			break
		}
		n++
	}
	fmt.Println("took", n)
	time.Sleep(time.Second)
	return nil
}

// send sends a text, in which \r and \n are written so, and shows what the answer begins with. icmp is an echo with the text in it; link is a
// datagram to whatever is on the link, without a look at the routes.
func send(args []string) error {
	text := strings.NewReplacer(`\r`, "\r", `\n`, "\n").Replace(args[2])
	switch args[0] {
	case "icmp":
		return echo(args[1], text)
	case "link":
		return straight(args[1], text)
	}
	c, err := net.DialTimeout(args[0], args[1], 10*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	answer := make([]byte, 200)
	n, err := c.Read(answer)
	fmt.Printf("%s answers %q\n", args[1], answer[:n])
	return err
}

// echo asks for an echo, as everybody may where net.ipv4.ping_group_range says so.
func echo(address, text string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{}
	copy(to.Addr[:], net.ParseIP(address).To4())
	message := append([]byte{8, 0, 0, 0, 0, 0, 0, 1}, text...)
	var sum uint32
	for i, b := range message {
		sum += uint32(b) << (8 * (1 - i%2))
	}
	sum = sum&0xffff + sum>>16
	message[2], message[3] = byte(^sum>>8), byte(^sum)
	return unix.Sendto(fd, message, 0, to)
}

func straight(address, text string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "eth0"); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DONTROUTE, 1); err != nil {
		return err
	}
	for range 3 { // the first one asks who has the address
		if err := unix.Sendto(fd, []byte(text), 0, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond)
	}
	return nil
}
