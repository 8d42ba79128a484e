// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// faulty is a socket that answers some transactions itself, with an error, instead of the kernel.
type faulty struct {
	netlink.Socket
	// refuse returns the error with which to refuse a batch; zero accepts it.
	refuse func(batch []byte) unix.Errno
	// blame also returns the number of the message at fault; zero accepts the batch.
	blame func(batch []byte) (uint32, unix.Errno)
	// lose reports whether a batch is accepted without an answer.
	lose  func(batch []byte) bool
	mute  bool
	queue [][]byte
	// most is the largest datagram that may be sent, if it is not zero.
	most int
	// read is called before each request that is not a transaction.
	read func()
}

func (f *faulty) Send(data []byte) error {
	f.mute = false
	if f.most != 0 && len(data) > f.most {
		return &netlink.SizeError{Size: len(data), Limit: f.most}
	}
	if binary.NativeEndian.Uint16(data[4:]) == unix.NFNL_MSG_BATCH_BEGIN {
		if f.refuse != nil {
			if errno := f.refuse(data); errno != 0 {
				f.queue = append(f.queue, refusal(1, errno)) // as an error of the whole transaction
				return nil
			}
		}
		if f.blame != nil {
			if at, errno := f.blame(data); at != 0 {
				f.queue = append(f.queue, refusal(at, errno))
				return nil
			}
		}
		f.mute = f.lose != nil && f.lose(data)
	} else if f.read != nil {
		f.read()
	}
	return f.Socket.Send(data)
}

func (f *faulty) Receive(buf []byte) (int, error) {
	if len(f.queue) > 0 {
		n := copy(buf, f.queue[0])
		f.queue = f.queue[1:]
		return n, nil
	}
	n, err := f.Socket.Receive(buf)
	for f.mute && err == nil {
		n, err = f.Socket.Receive(buf)
	}
	return n, err
}

func refusal(sequence uint32, errno unix.Errno) []byte {
	b := binary.NativeEndian.AppendUint32(nil, 36)
	b = binary.NativeEndian.AppendUint16(b, unix.NLMSG_ERROR)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_CAPPED)
	b = binary.NativeEndian.AppendUint32(b, sequence)
	b = append(b, 0, 0, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, uint32(-int32(errno)))
	return append(b, make([]byte, 16)...)
}

func openFaulty(t testing.TB, ns *netns.NS, cfg applier.Config) (*applier.Applier, *faulty) {
	t.Helper()
	sock, err := nfnl.Open(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	return openOver(t, ns, cfg, &faulty{Socket: sock})
}

// openWithoutOwners is openFaulty on a kernel without owners of tables.
func openWithoutOwners(t testing.TB, ns *netns.NS, cfg applier.Config) (*applier.Applier, *faulty) {
	t.Helper()
	sock, err := nfnl.Open(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	return openOver(t, ns, cfg, &faulty{Socket: sock, refuse: refusingOwner(unix.EINVAL)})
}

func openOver(t testing.TB, ns *netns.NS, cfg applier.Config, f *faulty) (*applier.Applier, *faulty) {
	t.Helper()
	cfg.Name, cfg.NetNS = tableName, ns.FD()
	if cfg.Logger == nil {
		cfg.Logger = logger(t)
	}
	a, err := applier.NewOver(cfg, f)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a, f
}

var moreHosts = &ruleset.Delta{Elements: []ruleset.ElementDelta{{
	Set: "hosts", Add: []ruleset.Element{element(addr("10.7.7.7"))},
}}}

func withMoreHosts() *ruleset.Table {
	return change(func(t *ruleset.Table) {
		s := findSet(t, "hosts")
		s.Elements = append(s.Elements, element(addr("10.7.7.7")))
	})
}

// After a temporary refusal, the table is read back and the change is made. A lasting refusal is
// reported and nothing is written. The desired state is programmed as soon as the kernel accepts
// it.
func TestRefusals(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EINTR, unix.ENOBUFS, unix.EBUSY, unix.EEXIST, unix.ENOENT, unix.ENOMEM} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			ns := nstest.New(t)
			a, f := openFaulty(t, ns, applier.Config{Shared: true})
			require.NoError(t, a.Apply(bg, sample()))
			left := 1
			f.refuse = func([]byte) unix.Errno {
				if left--; left >= 0 {
					return errno
				}
				return 0
			}
			require.NoError(t, a.Update(bg, moreHosts))
			requireLists(t, ns, withMoreHosts())
			require.EqualValues(t, 1, a.Stats().Refused)

			left = 1 << 30
			before := generation(t, ns)
			err := a.Apply(bg, sample())
			require.ErrorIs(t, err, errno)
			var failed *applier.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, before, generation(t, ns))
			require.Error(t, a.Resync(bg), "the change is tried again")
			left = 0
			require.NoError(t, a.Resync(bg))
			requireLists(t, ns, sample())
		})
	}
}

// If the answer is lost, the transaction may have been committed: the Applier reads the table.
func TestAnswerLost(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{Shared: true})
	require.NoError(t, a.Apply(bg, sample()))
	left := 1
	f.lose = func([]byte) bool { left--; return left >= 0 }
	require.NoError(t, a.Update(bg, moreHosts))
	requireLists(t, ns, withMoreHosts())
	require.EqualValues(t, 2, a.Stats().Readings)
}

// bad is a rule that every kernel refuses.
var bad = rule(
	ruleset.Raw{Text: "meta nonsense", Expressions: [][]byte{{12, 0, 1, 0, 'n', 'o', 'n', 's', 'e', 'n', 's', 0}}},
	accept,
)

// requireHeld requires that the object is held back, with these chains, and that nothing else
// failed.
func requireHeld(t *testing.T, err error, object applier.Object, chains ...string) {
	t.Helper()
	var held *applier.ObjectError
	require.ErrorAs(t, err, &held)
	require.Equal(t, object, held.Object)
	require.Equal(t, chains, held.Chains)
	var failed *applier.Error
	require.ErrorAs(t, err, &failed)
}

// A chain that the kernel refuses drops, and everything else is programmed: at the first call, in a
// change, and until the chain is corrected.
func TestIsolateChain(t *testing.T) {
	broken := func() *ruleset.Table {
		return change(func(t *ruleset.Table) {
			c := findChain(t, "db")
			c.Rules = append([]ruleset.Rule{bad}, c.Rules...)
			findSet(t, "hosts").Elements = findSet(t, "hosts").Elements[:1]
		})
	}
	want := change(func(t *ruleset.Table) {
		findChain(t, "db").Rules = []ruleset.Rule{rule(drop, "held back: no such file or directory")}
		findSet(t, "hosts").Elements = findSet(t, "hosts").Elements[:1]
	})
	for name, first := range map[string]bool{"first": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			a := openWith(t, ns, applier.Config{Shared: true, Logger: logger(t)})
			if !first {
				require.NoError(t, a.Apply(bg, sample()))
			}
			requireHeld(t, a.Apply(bg, broken()), applier.Object{Kind: "chain", Name: "db"}, "db")
			requireLists(t, ns, want)
			require.Len(t, a.Held(), 1)
			require.Equal(t, 1, a.Stats().Held)

			requireHeld(t, a.Update(bg, moreHosts), applier.Object{Kind: "chain", Name: "db"}, "db")
			require.Contains(t, listing(t, ns), "10.7.7.7")
			require.NoError(t, a.Apply(bg, sample()))
			require.Empty(t, a.Held())
			requireLists(t, ns, sample())
		})
	}
}

// All chains that reference a set which the kernel refuses drop.
func TestIsolateSet(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{Shared: true})
	require.NoError(t, a.Apply(bg, sample()))
	f.blame = func(batch []byte) (uint32, unix.Errno) {
		return messageWith(batch, unix.NFT_MSG_NEWSET, "small"), unix.ENOSPC
	}
	broken := change(func(t *ruleset.Table) {
		t.Sets = append(t.Sets, &ruleset.Set{
			Name: "small", Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: addresses(5),
		})
		for _, name := range []string{"web", "db"} {
			c := findChain(t, name)
			c.Rules = append(c.Rules, rule(
				isIPv4, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPSaddr}, Set: "small"}, accept,
			))
		}
		t.Chains = append(t.Chains, chain("other", rule(drop)))
	})
	requireHeld(t, a.Apply(bg, broken), applier.Object{Kind: "set", Name: "small"}, "db", "web")
	onlyDrop := rule(drop, "held back: "+unix.ENOSPC.Error())
	requireLists(t, ns, change(func(t *ruleset.Table) {
		findChain(t, "web").Rules, findChain(t, "db").Rules = []ruleset.Rule{onlyDrop}, []ruleset.Rule{onlyDrop}
		t.Chains = append(t.Chains, chain("other", rule(drop)))
	}))
	f.blame = nil
	require.NoError(t, a.Resync(bg))
	requireLists(t, ns, broken)
}

// messageWith returns the sequence number of the first message of a type that contains the name,
// zero if there is none.
func messageWith(batch []byte, typ uint16, name string) uint32 {
	for len(batch) >= unix.NLMSG_HDRLEN {
		n := binary.NativeEndian.Uint32(batch)
		isType := binary.NativeEndian.Uint16(batch[4:]) == unix.NFNL_SUBSYS_NFTABLES<<8|typ
		if isType && bytes.Contains(batch[:n], append([]byte(name), 0)) {
			return binary.NativeEndian.Uint32(batch[8:])
		}
		batch = batch[n:]
	}
	return 0
}

// A base chain cannot be held back: that would cut the node off. Nothing is written.
func TestRefusedBaseChain(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	require.NoError(t, a.Apply(bg, sample()))
	before := generation(t, ns)
	err := a.Apply(bg, change(func(t *ruleset.Table) {
		c := findChain(t, "forward")
		c.Rules = append(c.Rules, bad)
		findChain(t, "web").Rules = nil
	}))
	require.ErrorIs(t, err, unix.ENOENT)
	var failed *applier.Error
	require.ErrorAs(t, err, &failed)
	require.Contains(t, failed.Detail, "rule 4 of chain forward")
	require.Equal(t, before, generation(t, ns))
	requireLists(t, ns, sample())
}

// If the kernel names no object at fault, the Applier finds the objects by bisection.
func TestBisect(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{Shared: true})
	require.NoError(t, a.Apply(bg, sample()))
	f.refuse = func(batch []byte) unix.Errno {
		if bytes.Contains(batch, []byte("poison")) {
			return unix.ENOMEM
		}
		return 0
	}
	many := func(comment string) *ruleset.Table {
		return change(func(t *ruleset.Table) {
			for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
				r := rule(ruleset.Counter{})
				if name == "c" || name == "f" {
					r.Comment = comment
				}
				t.Chains = append(t.Chains, chain(name, r))
			}
		})
	}
	err := a.Apply(bg, many("poison"))
	require.ErrorIs(t, err, unix.ENOMEM)
	held := a.Held()
	require.Len(t, held, 2)
	require.Equal(t, "c", held[0].Object.Name)
	require.Equal(t, "f", held[1].Object.Name)
	requireLists(t, ns, change(func(t *ruleset.Table) {
		t.Chains = append(many("").Chains[:0:0], many("").Chains...)
		for _, name := range []string{"c", "f"} {
			findChain(t, name).Rules = []ruleset.Rule{rule(drop, "held back: "+held[0].Err.Error())}
		}
	}))
	f.refuse = nil
	require.NoError(t, a.Resync(bg))
	requireLists(t, ns, many("poison"))
}

// If notifications are lost, the table is read once, and nothing is written.
func TestNotificationsLost(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	require.NoError(t, a.Apply(bg, sample()))
	other := openWith(t, ns, applier.Config{Shared: true, Name: "other"})
	conn, err := nfnl.Dial(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, other.Apply(bg, &ruleset.Table{Name: "other", Sets: []*ruleset.Set{{
		Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: addresses(100_000),
	}}}))
	require.NoError(t, other.Teardown(bg))
	require.NoError(t, a.Update(bg, moreHosts))
	require.EqualValues(t, 2, a.Stats().Readings)
	requireLists(t, ns, withMoreHosts())
}

// TestKilledChild is not a test, but the process that TestNextProcessRepairsTableAfterKill kills.
func TestKilledChild(t *testing.T) {
	if os.Getenv("APPLIER_CHILD") == "" {
		return
	}
	a, err := applier.New(applier.Config{Name: tableName, Shared: true, MaxBatch: 8 << 10})
	require.NoError(t, err)
	for i := 0; ; i++ {
		require.NoError(t, a.Apply(bg, sample()))
		require.NoError(t, a.Apply(
			bg, change(func(t *ruleset.Table) { findSet(t, "hosts").Elements = addresses(20_000) }),
		))
		if i == 0 {
			os.Stdout.WriteString("running\n")
		}
	}
}

// A process that is killed in the middle of its transactions leaves a table that the next one can
// take over.
func TestNextProcessRepairsTableAfterKill(t *testing.T) {
	ns := nstest.New(t)
	for range 3 {
		var out *bufio.Reader
		var cmd *exec.Cmd
		require.NoError(t, ns.Do(func() error {
			cmd = exec.Command(os.Args[0], "-test.run=^TestKilledChild$")
			cmd.Env = append(os.Environ(), "APPLIER_CHILD=1")
			pipe, err := cmd.StdoutPipe()
			if err != nil {
				return err
			}
			out = bufio.NewReader(pipe)
			return cmd.Start()
		}))
		_, err := out.ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		a, err := applier.New(applier.Config{Name: tableName, Shared: true, NetNS: ns.FD()})
		require.NoError(t, err)
		require.NoError(t, a.Apply(bg, sample()))
		requireLists(t, ns, sample())
		require.NoError(t, a.Close())
	}
}

// A chain at fault is held back also if the whole table must be replaced. No object of the old
// table stays.
func TestIsolateInNewTable(t *testing.T) {
	ns := nstest.New(t)
	nft(t, ns, "table inet own { chain forward { type filter hook input priority 3; accept; }; chain db { accept; }; }")
	a := openWith(t, ns, applier.Config{Shared: true, Logger: logger(t)})
	broken := change(func(t *ruleset.Table) { findChain(t, "db").Rules = []ruleset.Rule{bad} })
	requireHeld(t, a.Apply(bg, broken), applier.Object{Kind: "chain", Name: "db"}, "db")
	requireLists(t, ns, change(func(t *ruleset.Table) {
		findChain(t, "db").Rules = []ruleset.Rule{rule(drop, "held back: no such file or directory")}
	}))
	require.NoError(t, a.Apply(bg, sample()))
	requireLists(t, ns, sample())
}

// Another process makes a change just before our transaction, and its notification was not received
// yet. The same call repairs it, because the transaction is for one generation of the ruleset.
func TestForeignChangeBeforeTransaction(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{Shared: true})
	require.NoError(t, a.Apply(bg, sample()))
	changes := 1
	f.refuse = func([]byte) unix.Errno {
		if changes--; changes >= 0 {
			nft(t, ns, "flush chain inet own web")
		}
		return 0
	}
	require.NoError(t, a.Update(bg, moreHosts))
	requireLists(t, ns, withMoreHosts())
}
