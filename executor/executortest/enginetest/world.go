package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	word "crypto/rand"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// World is a container that plays the whole internet for those on its network: it is where their default route leads, has every address of At,
// answers at port 80 of each with "reached ADDRESS", and is a name server at port 53 of each. This machine has none of it.
type World struct {
	Network string   // of the engine
	Hosts   []string // NAME:ADDRESS of its names
	DNS     string   // the address of its name server
	// At are addresses and names, by what they are; "public" counts as one of the internet. An address of IPv6 is in brackets, and there
	// where the machine has IPv6.
	At map[string]string

	client *client.Client
	box    string
	router netip.Addr
}

// What the world's name server knows; every other name below example.com leads to "public". An answer is valid for no time.
const (
	RebindName  = "rebind.example.com"  // and all below it: "public" and "metadata" by turns
	LeadsName   = "leads.example.net"   // "metadata"
	MappedName  = "mapped.example.net"  // "metadata", as an address of IPv6
	ListedName  = "listed.example.net"  // Listed
	CarriesName = "carries.example.net" // all below it: "public"
)

// Listed is one more public address of the world.
const Listed = "25.254.252.8"

// Outside makes a network of the tests' engine with public addresses, of a range that nobody routes, and returns its name and that of its router,
// which with hidden this machine is not. Where the machine has IPv6, so has the network, with private addresses: the last result is their range.
func Outside(t testing.TB, hidden bool) (name string, router netip.Addr, private6 netip.Prefix) {
	t.Helper()
	c := Client(t)
	number := byte(rand.N(250)) // tests of other packages have others
	router = netip.AddrFrom4([4]byte{25, 255, number, 1})
	name = "rung-test-" + strings.ToLower(word.Text()[:10])
	o := client.NetworkCreateOptions{
		Driver: "bridge", Options: map[string]string{"com.docker.network.bridge.inhibit_ipv4": strconv.FormatBool(hidden)},
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: netip.PrefixFrom(router, 24).Masked(), Gateway: router}}},
	}
	if has, err := os.ReadFile("/proc/net/if_inet6"); err == nil && len(has) > 0 {
		with := true
		o.EnableIPv6 = &with
		private6 = netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0x12, 0x77, number}), 64)
		o.IPAM.Config = append(o.IPAM.Config, network.IPAMConfig{Subnet: private6})
	}
	made, err := c.NetworkCreate(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.NetworkRemove(context.Background(), made.ID, client.NetworkRemoveOptions{}); err != nil {
			t.Error(err)
		}
	})
	return name, router, private6
}

// NewWorld makes a world in the tests' engine, which has Image.
func NewWorld(t testing.TB) *World {
	t.Helper()
	w := &World{client: Client(t), DNS: "25.254.252.7", At: map[string]string{
		"public": "25.254.252.7", "private": "10.213.77.9", "shared": "100.64.13.9", "metadata": "169.254.169.254", "link-local": "169.254.77.9",
	}}
	public, metadata := w.At["public"], w.At["metadata"]
	var private6 netip.Prefix
	w.Network, w.router, private6 = Outside(t, true)
	script := "ip address add " + w.router.String() + "/24 dev eth0\nip address add " + Listed + "/32 dev lo\n"
	for what, address := range maps.Clone(w.At) {
		name := what + ".example.com"
		script += fmt.Sprintf("ip address add %s/32 dev lo\n", address)
		w.Hosts = append(w.Hosts, name+":"+address)
		w.At[what+"-name"] = name
	}
	end := &network.EndpointSettings{}
	if private6.IsValid() {
		bytes := private6.Addr().As16()
		bytes[15] = 9
		end.IPAMConfig = &network.EndpointIPAMConfig{IPv6Address: netip.AddrFrom16(bytes)}
		w.At["private6"] = "[" + end.IPAMConfig.IPv6Address.String() + "]"
	}
	script += "exec /world"
	for name, at := range map[string]string{
		"*.example.com": public, RebindName: public + "," + metadata, "*." + RebindName: public + "," + metadata,
		LeadsName: metadata, MappedName: "::ffff:" + metadata, ListedName: Listed, "*." + CarriesName: public,
	} {
		script += " '" + name + "=" + at + "'"
	}
	box, err := w.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config:           &container.Config{Image: Image, Entrypoint: []string{"sh", "-ec", script}, Tty: true},
		HostConfig:       &container.HostConfig{NetworkMode: container.NetworkMode(w.Network), CapAdd: []string{"NET_ADMIN"}},
		NetworkingConfig: &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{w.Network: end}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.box = box.ID
	t.Cleanup(func() {
		_, _ = w.client.ContainerRemove(context.Background(), box.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	})
	if _, err := w.client.CopyToContainer(t.Context(), box.ID, client.CopyToContainerOptions{DestinationPath: "/", Content: worldProgram(t)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.ContainerStart(t.Context(), box.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		if slices.ContainsFunc(w.Seen(t), func(line string) bool { return strings.HasPrefix(line, "ready") }) {
			return w
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the world does not begin: %q", w.Seen(t))
	return nil
}

// Namespace makes a network namespace of this machine whose network is the world, with the world's names and name server for what `ip netns exec`
// runs in it, and returns its name.
func (w *World) Namespace(t testing.TB) string {
	t.Helper()
	Program(t, "ip")
	found, err := w.client.NetworkInspect(t.Context(), w.Network, client.NetworkInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const idLength = 12 // of what the engine calls a bridge
	name := w.Network
	end, bridge := "rung"+strings.ToLower(word.Text()[:8]), "br-"+found.Network.ID[:idLength]
	at := w.router.As4()
	at[3] = 200
	address := netip.PrefixFrom(netip.AddrFrom4(at), 24)
	hosts := "127.0.0.1 localhost\n"
	for _, pair := range w.Hosts {
		name, address, _ := strings.Cut(pair, ":")
		hosts += address + " " + name + "\n"
	}
	files := filepath.Join("/etc/netns", name)
	t.Cleanup(func() {
		_ = exec.Command("ip", "netns", "delete", name).Run()
		_ = os.RemoveAll(files)
		_ = os.Remove(filepath.Dir(files)) // unless others have theirs there
	})
	const forAll = 0o755
	if err := os.MkdirAll(files, forAll); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"hosts": hosts, "resolv.conf": "nameserver " + w.DNS + "\n"} {
		if err := os.WriteFile(filepath.Join(files, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	six := ""
	if private := w.At["private6"]; private != "" {
		at := netip.MustParseAddr(strings.Trim(private, "[]")).As16()
		at[15] = 200
		six = fmt.Sprintf("ip -n %s address add %s/64 dev eth0 nodad\n", name, netip.AddrFrom16(at))
	}
	script := fmt.Sprintf(`set -e
ip netns add %[1]s
ip link add %[2]s type veth peer name eth0 netns %[1]s
ip link set %[2]s master %[3]s up
ip -n %[1]s link set lo up
ip -n %[1]s address add %[4]s dev eth0
ip -n %[1]s link set eth0 up
%[6]sip -n %[1]s route add default via %[5]s`, name, end, bridge, address, w.router, six)
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return name
}

// worldProgram is an archive with the program of the world.
func worldProgram(t testing.TB) io.Reader {
	t.Helper()
	file := filepath.Join(t.TempDir(), "world")
	build := exec.Command("go", "build", "-o", file, "github.com/rungci/rung/executor/executortest/enginetest/world")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	a := tar.NewWriter(&archive)
	if err := a.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "world", Mode: 0o755, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	_, _ = a.Write(content) // to memory
	_ = a.Close()
	return &archive
}

// Seen are the lines about all that has arrived in the world: the protocol, the address, and what came, quoted.
func (w *World) Seen(t testing.TB) []string {
	t.Helper()
	logs, err := w.client.ContainerLogs(t.Context(), w.box, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	text, err := io.ReadAll(logs)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
}
