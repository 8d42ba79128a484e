// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// naive is a simple reference: a list of wanted routes. Of each destination and metric, it keeps
// the route of the first class, in the form of ip -j.
type naive []routes.Route

func (n *naive) set(r routes.Route) {
	n.unset(r)
	*n = append(*n, r)
}

func (n *naive) unset(r routes.Route) {
	*n = slices.DeleteFunc(*n, func(o routes.Route) bool {
		return o.Dst == r.Dst && o.Metric == r.Metric && o.Class == r.Class
	})
}

// want returns the expected output of ip -j.
func (n naive) want() (lines []string) {
	for _, r := range n {
		beaten := slices.ContainsFunc(n, func(o routes.Route) bool {
			return o.Dst == r.Dst && o.Metric == r.Metric && o.Class < r.Class
		})
		if beaten {
			continue
		}
		e := listed{
			Type: r.Type.String(), Dst: strings.TrimSuffix(strings.TrimSuffix(r.Dst.String(), "/32"), "/128"),
			Dev: r.Interface, Metric: r.Metric,
		}
		if r.Type != routes.Unicast && r.Dst.Addr().Is6() {
			e.Dev = "lo"
		}
		if r.Dst.Addr().Is6() && r.Metric == 0 {
			e.Metric = 1024
		}
		if r.Gateway.IsValid() {
			e.Gateway = r.Gateway.String()
		}
		if r.MTU != 0 {
			e.Metrics = []struct{ MTU int }{{r.MTU}}
		}
		lines = append(lines, e.String())
	}
	slices.Sort(lines)
	return lines
}

// listed is a route in the output of ip -j.
type listed struct {
	Type, Dst, Dev, Gateway string
	Metric                  uint32
	Metrics                 []struct{ MTU int }
	NextHops                []hop
}

type hop struct {
	Dev, Gateway string
	Weight       int
}

func (l listed) String() string {
	slices.SortFunc(l.NextHops, func(a, b hop) int { return strings.Compare(a.Dev+a.Gateway, b.Dev+b.Gateway) })
	if l.Type == "" {
		l.Type = "unicast"
	}
	return fmt.Sprintf("%s %s dev %q via %q metric %d %v %+v", l.Type, l.Dst, l.Dev, l.Gateway, l.Metric, l.Metrics,
		l.NextHops)
}

// listed returns the routes of a protocol in the main table as ip -j has them.
func (n *node) listed(protocol string) (lines []string) {
	n.Helper()
	for _, family := range []string{"-4", "-6"} {
		var entries []listed
		require.NoError(n, json.Unmarshal([]byte(n.ip("-j %s route show proto %s", family, protocol)), &entries))
		for _, e := range entries {
			lines = append(lines, e.String())
		}
	}
	slices.Sort(lines)
	return lines
}

var randomInterfaces = []string{"i0", "i1", "i2", "i3"}

// randomRoute returns a route to one of few destinations, so that routes conflict.
func randomRoute(rng *rand.Rand) routes.Route {
	four := rng.IntN(2) == 0
	r := routes.Route{
		Class: routes.Class(rng.IntN(6) - 4), Metric: uint32(rng.IntN(2) * 7),
		Interface: randomInterfaces[rng.IntN(len(randomInterfaces))], MTU: rng.IntN(2) * 1400,
	}
	gateway := func() netip.Addr {
		if four {
			return netip.AddrFrom4([4]byte{192, 0, 2, byte(rng.IntN(3) + 1)})
		}
		return addr(fmt.Sprintf("fe80::%d", rng.IntN(3)+1))
	}
	i := rng.IntN(8)
	if r.Dst = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 0}), 24+i%2*8); !four {
		r.Dst = prefix(fmt.Sprintf("fd00:%d::/%d", i, 64+i%2*64))
	}
	switch rng.IntN(4) {
	case 0:
		r.Interface, r.MTU, r.Type = "", 0, routes.Type(1+rng.IntN(2))
	case 1:
		r.Gateway, r.OnLink = gateway(), four
	}
	return r
}

// churn makes random changes of a Keeper, its kernel and a naive reconciler.
type churn struct {
	*keeping
	rng    *rand.Rand
	wanted naive
}

// step changes the wanted routes, or the kernel as another process.
func (c *churn) step() {
	name := randomInterfaces[c.rng.IntN(len(randomInterfaces))]
	meddle := func(format string, args ...any) { // may fail: it is random
		_ = c.ns.Do(func() error { return exec.Command("ip", strings.Fields(fmt.Sprintf(format, args...))...).Run() })
	}
	r := randomRoute(c.rng)
	family := "-4"
	if r.Dst.Addr().Is6() {
		family = "-6"
	}
	switch c.rng.IntN(16) {
	default:
		c.wanted.set(r)
		c.k.Set(r)
	case 0, 1, 2, 3:
		c.wanted.unset(r)
		c.k.Delete(r)
	case 4:
		meddle("link set dev %s down", name)
		meddle("link set dev %s up", name)
	case 5:
		meddle("link del dev %s", name)
		c.addLinks(name)
	case 6:
		meddle("link set dev %s name other", name)
		meddle("link set dev other up")
		meddle("link set dev other name %s", name)
		meddle("link set dev %s up", name)
	case 7:
		meddle("%s route del %s", family, r.Dst)
	case 8:
		meddle("%s route replace %s dev %s proto 219", family, r.Dst, name)
	case 9:
		meddle("%s route append %s dev %s proto 219 metric 7", family, r.Dst, name)
	case 10:
		meddle("%s route flush proto 219", family)
	}
}

// Routes, interfaces and the kernel change at random. Whenever the Keeper reports no fault, ip
// lists exactly the routes that the naive reconciler wants. Foreign routes do not change.
func TestKeeperRandom(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 3 // a seed takes minutes in an emulated kernel
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			c := &churn{
				keeping: newKeeping(t, routes.KeeperConfig{}, randomInterfaces...), rng: rand.New(rand.NewPCG(seed, 8)),
			}
			c.ip("route add blackhole 10.0.3.0/24 metric 99 proto static")
			c.ip("-6 route add blackhole fd00:3::/64 metric 99 proto static")
			for range 40 {
				for range 1 + c.rng.IntN(6) {
					c.step()
				}
				switch c.rng.IntN(8) {
				case 0: // the next process
					require.NoError(t, c.k.Close())
					c.k = c.another(routes.KeeperConfig{})
					for _, r := range c.wanted {
						c.k.Set(r)
					}
				case 1:
					require.NoError(t, c.k.Resync(t.Context()))
				}
				c.k.ResetDisputes() // some objects of the former stay
				plan, err := c.k.Plan(t.Context())
				require.NoError(t, err)
				before := c.listed("219")
				require.NoError(t, c.k.Apply(t.Context()))
				require.Equal(t, c.wanted.want(), c.listed("219"), "plan was:\n%s", plan)
				if plan == "" {
					require.Equal(t, before, c.listed("219"), "nothing was planned")
				}
				require.Len(t, c.listed("static"), 2)
			}
		})
	}
}

// The kernel refuses random changes, and the connection breaks in the middle of others. The Keeper
// keeps record of changes that succeeded. Once the faults end, the kernel has the desired state.
func TestKeeperFaults(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 3 // a seed takes minutes in an emulated kernel
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			c := &churn{
				keeping: newKeeping(t, routes.KeeperConfig{}, randomInterfaces...), rng: rand.New(rand.NewPCG(seed, 9)),
			}
			healthy := false
			broken := errors.New("connection broke")
			c.k.Faulty(func(conn *rtnl.Conn, b *rtnl.Batch, failed func(i int, err error)) error {
				if healthy {
					return conn.Do(b, failed)
				}
				switch c.rng.IntN(3) {
				case 0: // no change reaches the kernel
					return broken
				case 1: // all changes succeed, but the answers are lost
					_ = conn.Do(b, func(int, error) {})
					return broken
				default: // an answer reports an error, although the change was made
					refused := map[int]error{}
					err := conn.Do(b, func(i int, err error) { refused[i] = err })
					for i := range b.Len() {
						if refused[i] == nil && c.rng.IntN(4) == 0 {
							refused[i] = &rtnl.Error{Errno: syscall.ENOMEM}
						}
						if refused[i] != nil {
							failed(i, refused[i])
						}
					}
					return err
				}
			})
			for range 30 {
				for range 1 + c.rng.IntN(6) {
					c.step()
				}
				healthy = false
				_ = c.k.Apply(t.Context()) // its result is ignored
				healthy = true
				require.NoError(t, c.k.Resync(t.Context()))
				require.Equal(t, c.wanted.want(), c.listed("219"))
			}
		})
	}
}

// keeperChild is the environment variable with the file descriptor of a child's namespace.
const keeperChild = "WAYLEAVE_TEST_KEEPER"

// childRoutes returns the routes that the child wants in round i.
func childRoutes(i int) (list []routes.Object) {
	for j := range 2000 {
		a := netip.AddrFrom4([4]byte{10, 0, byte(j >> 8), byte(j)})
		list = append(list, routes.Route{
			Dst: netip.PrefixFrom(a, 32), Interface: randomInterfaces[(i+j)%2], MTU: 1300 + i,
		})
	}
	return list
}

// A process that keeps routes is killed at random moments. The next one changes the routes that it
// left to the desired ones. Foreign routes stay.
func TestKeeperKilled(t *testing.T) {
	if fd := os.Getenv(keeperChild); fd != "" {
		keepUntilKilled(t, fd)
	}
	k := newKeeping(t, routes.KeeperConfig{}, randomInterfaces...)
	k.ip("route add blackhole 10.9.0.0/16 proto static")
	rng := rand.New(rand.NewPCG(1, 1))
	partial := 0
	for i := range 10 {
		child := exec.Command(os.Args[0], "-test.run=^TestKeeperKilled$")
		child.ExtraFiles = []*os.File{os.NewFile(uintptr(dup(t, k.ns.FD())), "netns")}
		child.Env = append(os.Environ(), keeperChild+"=3")
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		require.NoError(t, child.ExtraFiles[0].Close())
		_, err = out.Read(make([]byte, 1)) // it has begun
		require.NoError(t, err)
		// the moment is random
		timer := time.NewTimer(time.Duration(rng.IntN(30_000)) * time.Microsecond)
		<-timer.C
		require.NoError(t, child.Process.Kill())
		_ = child.Wait() // killed

		left := len(k.listed("219"))
		if left > 0 && left < 2000 {
			partial++
		}
		next := k.another(routes.KeeperConfig{})
		next.Set(childRoutes(i)[:1000]...)
		require.NoError(t, next.Apply(t.Context()))
		var wanted naive
		for _, o := range childRoutes(i)[:1000] {
			wanted = append(wanted, o.(routes.Route))
		}
		got := k.listed("219")
		require.Len(t, got, 1000)
		if i == 0 { // the naive reconciler is slow
			require.Equal(t, wanted.want(), got)
		}
		plan, err := next.Plan(t.Context())
		require.NoError(t, err)
		require.Empty(t, plan)
		require.Len(t, k.listed("static"), 1)
		require.NoError(t, next.Close())
	}
	t.Logf("%d of 10 were killed between the first route and the last", partial)
}

// keepUntilKilled changes routes until the process is killed, at most for some seconds.
func keepUntilKilled(t *testing.T, fd string) {
	namespace, err := strconv.Atoi(fd)
	require.NoError(t, err)
	k, err := routes.NewKeeper(routes.KeeperConfig{NetNS: namespace})
	require.NoError(t, err)
	_, err = os.Stdout.WriteString("!")
	require.NoError(t, err)
	for i := range 200 {
		k.Set(childRoutes(i)...)
		require.NoError(t, k.Apply(t.Context()))
		k.Delete(childRoutes(i)[500:]...)
		require.NoError(t, k.Apply(t.Context()))
	}
	os.Exit(1) // it was not killed
}

func dup(t *testing.T, fd int) int {
	t.Helper()
	other, err := syscall.Dup(fd)
	require.NoError(t, err)
	return other
}
