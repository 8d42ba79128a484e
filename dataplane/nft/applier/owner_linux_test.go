// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// openOwned returns an Applier that owns its table. It skips where the kernel cannot do that.
func openOwned(t testing.TB, ns *netns.NS) *applier.Applier {
	t.Helper()
	skipUnlessOwnable(t)
	return openWith(t, ns, applier.Config{Logger: logger(t)})
}

func skipUnlessOwnable(t testing.TB) {
	t.Helper()
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{})
	require.NoError(t, a.Apply(bg, &ruleset.Table{Name: tableName}))
	nstest.SkipUnlessOwned(t, a.Stats().Owned)
}

// messages records the types of the messages in the transactions of a socket.
func messages(f *faulty) *[]uint16 {
	var types []uint16
	f.refuse = func(batch []byte) unix.Errno {
		types = append(types, messagesOf(batch)...)
		return 0
	}
	return &types
}

// messagesOf returns the types of the messages in a transaction.
func messagesOf(batch []byte) (types []uint16) {
	for len(batch) > 0 {
		if typ := binary.NativeEndian.Uint16(batch[4:]); typ>>8 == unix.NFNL_SUBSYS_NFTABLES {
			types = append(types, typ&0xff)
		}
		batch = batch[binary.NativeEndian.Uint32(batch):]
	}
	return types
}

// refusedNft runs nft, and requires that the kernel refuses the change.
func refusedNft(t testing.TB, ns *netns.NS, script string) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("Operation not permitted")) {
			return errors.New(script + ": " + string(out))
		}
		return nil
	}))
}

// setFlags sets the flags of our table as another process.
func setFlags(t testing.TB, ns *netns.NS, flags uint32) {
	t.Helper()
	require.NoError(t, tryFlags(t, ns, flags))
}

// tryFlags is setFlags, and returns the kernel's error.
func tryFlags(t testing.TB, ns *netns.NS, flags uint32) error {
	t.Helper()
	conn, err := nfnl.Dial(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	defer conn.Close()
	b := nfnl.NewBatch()
	b.Message(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, nfnl.Object{})
	b.String(unix.NFTA_TABLE_NAME, tableName)
	b.Uint32(unix.NFTA_TABLE_FLAGS, flags)
	return conn.Commit(b, nil)
}

// S174: no other process can change or delete the table while its owner lives.
func TestOwnedTableRefusesOthers(t *testing.T) {
	ns := nstest.New(t)
	a := openOwned(t, ns)
	require.False(t, a.Stats().Owned, "the table does not exist yet")
	require.NoError(t, a.Apply(bg, sample()))
	require.True(t, a.Stats().Owned)
	requireLists(t, ns, sample())
	before := generation(t, ns)
	for name, script := range foreign {
		if script != "" && name != "flush ruleset" {
			refusedNft(t, ns, script)
		}
	}
	nft(t, ns, "flush ruleset")
	requireLists(t, ns, sample())
	require.Equal(t, before, generation(t, ns))

	nft(t, ns, "table ip other { chain c { counter; }; }")
	nft(t, ns, "flush ruleset")
	require.NoError(t, a.Update(bg, moreHosts))
	requireLists(t, ns, withMoreHosts())
	require.EqualValues(t, 1, a.Stats().Readings)
	require.Zero(t, a.Stats().Drifts)

	require.NoError(t, a.Teardown(bg))
	require.False(t, a.Stats().Owned)
	require.Empty(t, listing(t, ns))
	require.NoError(t, a.Apply(bg, sample()))
	require.True(t, a.Stats().Owned)
	refusedNft(t, ns, "delete table inet own")
}

// A table that is replaced because a set has another type still has its owner.
func TestReplacedTableKeepsOwner(t *testing.T) {
	ns := nstest.New(t)
	other := change(func(t *ruleset.Table) {
		s := findSet(t, "hosts")
		s.Interval, s.Elements = true, []ruleset.Element{prefix("10.0.0.0/24")}
	})
	a := openOwned(t, ns)
	require.NoError(t, a.Apply(bg, sample()))
	require.NoError(t, a.Close())
	b := openOwned(t, ns)
	require.NoError(t, b.Apply(bg, other))
	require.True(t, b.Stats().Owned)
	refusedNft(t, ns, "delete table inet own")
	requireLists(t, ns, other)
}

// S174: the next process takes the table over by a single message, after the former owner has
// closed it. Counters keep their values.
func TestNextProcessTakesOverTableByOneMessage(t *testing.T) {
	ns := nstest.New(t)
	first := openOwned(t, ns)
	require.NoError(t, first.Apply(bg, counted()))
	sendTo(t, ns, "127.0.0.1:9", 3)
	require.Equal(t, 3, hits(t, ns))
	require.NoError(t, first.Close())
	require.NotContains(t, nft(t, ns, "", "list", "ruleset"), "owner")

	before := generation(t, ns)
	next, f := openFaulty(t, ns, applier.Config{})
	sent := messages(f)
	require.NoError(t, next.Apply(bg, counted()))
	require.Equal(t, []uint16{unix.NFT_MSG_NEWTABLE}, *sent)
	require.True(t, next.Stats().Owned)
	require.Equal(t, before+1, generation(t, ns))
	require.Equal(t, 3, hits(t, ns))
	refusedNft(t, ns, "delete table inet own")
	require.NoError(t, next.Verify(bg))
	require.Len(t, *sent, 1, "the table is ours already")
}

// sendTo sends datagrams.
func sendTo(t *testing.T, ns *netns.NS, to string, n int) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		for range n { // a socket for each, because an ICMP error about one datagram is an error of the next send
			conn, err := net.Dial("udp", to)
			if err != nil {
				return err
			}
			_, err = conn.Write([]byte("x"))
			if err = errors.Join(err, conn.Close()); err != nil {
				return err
			}
		}
		return nil
	}))
}

const ownerChild = "WAYLEAVE_TEST_OWNER_CHILD"

// TestOwnerChild is not a test, but the process that TestTakeOverAfterKill kills.
func TestOwnerChild(t *testing.T) {
	if os.Getenv(ownerChild) == "" {
		return
	}
	a, err := applier.New(applier.Config{Name: tableName, NetNS: 3})
	require.NoError(t, err)
	require.NoError(t, a.Apply(bg, counted()))
	_, err = os.Stdout.WriteString("applied\n")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, os.Stdin) // until it is killed
	require.NoError(t, err)
}

// S174: a process that is killed leaves the table as it is, and the next one takes it over.
// Meanwhile a second process gets an error that names the first, and changes nothing.
func TestTakeOverAfterKill(t *testing.T) {
	skipUnlessOwnable(t)
	ns := nstest.New(t)
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestOwnerChild$")
	cmd.Env = append(os.Environ(), ownerChild+"=yes")
	fd, err := unix.FcntlInt(uintptr(ns.FD()), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	file := os.NewFile(uintptr(fd), "netns")
	cmd.ExtraFiles = []*os.File{file}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer in.Close()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }() // if the test ends early
	require.NoError(t, file.Close())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "applied\n", line)
	sendTo(t, ns, "127.0.0.1:9", 3)

	before := generation(t, ns)
	next := openOwned(t, ns)
	err = next.Apply(bg, sample())
	var other *applier.OwnedError
	require.ErrorAs(t, err, &other)
	require.EqualValues(t, cmd.Process.Pid, other.Port)
	require.Equal(t, "exe", other.Process)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Equal(t, before, generation(t, ns))
	require.Equal(t, 3, hits(t, ns), "the table still exists")

	require.NoError(t, next.Apply(bg, counted()))
	require.Equal(t, before+1, generation(t, ns))
	require.True(t, next.Stats().Owned)
	require.Equal(t, 3, hits(t, ns))
	refusedNft(t, ns, "delete table inet own")
}

// S174: every call of a second Applier fails with an *OwnedError, with and without Config.Shared.
// It reports no drift for the owner's changes.
func TestOwnedByAnother(t *testing.T) {
	for name, cfg := range map[string]applier.Config{"owned": {}, "shared": {Shared: true}} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			owner := openOwned(t, ns)
			require.NoError(t, owner.Apply(bg, sample()))
			before := generation(t, ns)
			second, f := openFaulty(t, ns, cfg)
			sent := messages(f)
			for _, err := range []error{
				second.Apply(bg, counted()), second.Update(bg, &ruleset.Delta{}), second.Resync(bg), second.Verify(bg),
			} {
				var other *applier.OwnedError
				require.ErrorAs(t, err, &other)
				require.Equal(t, tableName, other.Table)
				require.NotZero(t, other.Port)
				require.NotErrorIs(t, err, unix.EPERM, "not for lack of a capability")
				var failed *applier.Error
				require.ErrorAs(t, err, &failed)
				require.NotEmpty(t, failed.Op)
			}
			require.Empty(t, *sent)
			require.NoError(t, owner.Update(bg, moreHosts))
			require.Error(t, second.Resync(bg))
			require.Zero(t, second.Stats().Drifts)
			var other *applier.OwnedError
			require.ErrorAs(t, second.Teardown(bg), &other)
			require.Equal(t, before+1, generation(t, ns))
			requireLists(t, ns, withMoreHosts())

			require.NoError(t, owner.Close())
			require.NoError(t, second.Apply(bg, sample()))
			require.Equal(t, !cfg.Shared, second.Stats().Owned)
			requireLists(t, ns, sample())
			nft(t, ns, "table ip other")
			require.NoError(t, second.Teardown(bg))
		})
	}
}

// A table without an owner, as an earlier version made it, gets an owner: one transaction replaces
// the table.
func TestAdoptUnowned(t *testing.T) {
	ns := nstest.New(t)
	before := open(t, ns)
	require.NoError(t, before.Apply(bg, counted()))
	require.False(t, before.Stats().Owned)
	require.NoError(t, before.Close())
	next := openOwned(t, ns)
	require.NoError(t, next.Apply(bg, sample()))
	require.True(t, next.Stats().Owned)
	requireLists(t, ns, sample())
	refusedNft(t, ns, "delete table inet own")
}

// A table without an owner that is too large to be replaced, or that the kernel refuses to replace
// three times, stays, and is repaired.
func TestAdoptUnownedInPlace(t *testing.T) {
	for name, test := range map[string]struct{ most, refusals int }{
		"too large": {most: 500},
		// Each time, with and without the base chains deleted first, and both once more for the
		// object at fault.
		"refused": {refusals: 3 * 4},
	} {
		t.Run(name, func(t *testing.T) {
			skipUnlessOwnable(t)
			ns := nstest.New(t)
			before := open(t, ns)
			require.NoError(t, before.Apply(bg, counted()))
			require.NoError(t, before.Close())
			sendTo(t, ns, "127.0.0.1:9", 3)
			next, f := openFaulty(t, ns, applier.Config{})
			refusals := 0
			f.most = test.most
			f.blame = func(batch []byte) (uint32, unix.Errno) {
				at := messageWith(batch, unix.NFT_MSG_DELTABLE, tableName)
				if at != 0 {
					refusals++
				}
				return at, unix.ENOMEM
			}
			written := generation(t, ns)
			require.NoError(t, next.Apply(bg, counted()))
			require.Equal(t, test.refusals, refusals)
			require.Equal(t, written, generation(t, ns))
			require.False(t, next.Stats().Owned)
			require.Equal(t, 3, hits(t, ns))
			nft(t, ns, "add chain inet own foreign")
			require.NoError(t, next.Resync(bg))
			requireLists(t, ns, counted())
		})
	}
}

// On a kernel without table owners, changes are repaired, and the log records that once. Any other
// refusal is an error.
func TestKernelWithoutTableOwners(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EINVAL, unix.EOPNOTSUPP} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			ns := nstest.New(t)
			var log bytes.Buffer
			a, err := overRefusing(t, ns, errno, slog.New(slog.NewTextHandler(&log, nil)))
			require.NoError(t, err)
			defer a.Close()
			require.NoError(t, a.Apply(bg, sample()))
			require.False(t, a.Stats().Owned)
			nft(t, ns, "delete table inet own")
			require.NoError(t, a.Resync(bg))
			requireLists(t, ns, sample())
			require.Equal(t, 1, strings.Count(log.String(), "level=INFO"), log.String())
			require.NotContains(t, nft(t, ns, "", "list", "ruleset"), "flags owner")
		})
	}
	_, err := overRefusing(t, nstest.New(t), unix.ENOMEM, logger(t))
	require.ErrorIs(t, err, unix.ENOMEM)
}

// lingering is a socket that the kernel keeps for some time after Close, as if a process were
// forked at that moment.
type lingering struct {
	netlink.Socket
	closed chan error
}

func (l lingering) Close() error {
	time.AfterFunc(100*time.Millisecond, func() { l.closed <- l.Socket.Close() })
	return nil
}

// When Close returns, the next Applier can own the table, even if the socket outlived its Close.
func TestCloseReleasesTable(t *testing.T) {
	skipUnlessOwnable(t)
	ns := nstest.New(t)
	sock, err := nfnl.Open(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	l := lingering{Socket: sock, closed: make(chan error, 1)}
	first, err := applier.NewOver(applier.Config{Name: tableName, NetNS: ns.FD()}, l)
	require.NoError(t, err)
	require.NoError(t, first.Apply(bg, sample()))
	require.True(t, first.Stats().Owned)
	second := openWith(t, ns, applier.Config{})
	require.NoError(t, first.Close())
	require.NoError(t, second.Apply(bg, sample()))
	require.True(t, second.Stats().Owned)
	require.NoError(t, <-l.closed)
}

// refusingOwner returns a hook that refuses every table with an owner.
func refusingOwner(errno unix.Errno) func(batch []byte) unix.Errno {
	return func(batch []byte) unix.Errno {
		for len(batch) > 0 {
			n := binary.NativeEndian.Uint32(batch)
			isTable := binary.NativeEndian.Uint16(batch[4:]) == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWTABLE
			flags := []byte{8, 0, unix.NFTA_TABLE_FLAGS, 0, 0, 0, 0}
			if i := bytes.Index(batch[:n], flags); isTable && i >= 0 && batch[i+len(flags)]&2 != 0 {
				return errno
			}
			batch = batch[n:]
		}
		return 0
	}
}

// overRefusing makes an Applier over a kernel that refuses flags of tables.
func overRefusing(t *testing.T, ns *netns.NS, errno unix.Errno, log *slog.Logger) (*applier.Applier, error) {
	t.Helper()
	sock, err := nfnl.Open(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	f := &faulty{Socket: sock, refuse: refusingOwner(errno)}
	a, err := applier.NewOver(applier.Config{Name: tableName, NetNS: ns.FD(), Logger: log}, f)
	if err != nil {
		require.NoError(t, sock.Close())
	}
	return a, err
}

// A table that was owned, and then is shared, stays as it is. Its flags cannot be removed, and have
// no effect.
func TestOwnedThenShared(t *testing.T) {
	ns := nstest.New(t)
	owner := openOwned(t, ns)
	require.NoError(t, owner.Apply(bg, sample()))
	require.NoError(t, owner.Close())
	before := generation(t, ns)
	shared := open(t, ns)
	require.NoError(t, shared.Apply(bg, sample()))
	require.Equal(t, before, generation(t, ns))
	require.False(t, shared.Stats().Owned)
	for _, script := range []string{"add chain inet own foreign", "delete table inet own"} {
		nft(t, ns, script)
		require.NoError(t, shared.Resync(bg))
		requireLists(t, ns, sample())
	}
}

// A table that another process switched off between two owners is switched on by the process that
// takes it over or adopts it.
func TestDormantTableIsSwitchedOn(t *testing.T) {
	for name, cfg := range map[string]applier.Config{"owned": {}, "shared": {Shared: true}} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			owner := openOwned(t, ns)
			require.NoError(t, owner.Apply(bg, counted()))
			require.NoError(t, owner.Close())
			setFlags(t, ns, 1|4) // dormant, persist
			sendTo(t, ns, "127.0.0.1:9", 3)
			require.Zero(t, hits(t, ns))
			require.NoError(t, openWith(t, ns, cfg).Apply(bg, counted()))
			sendTo(t, ns, "127.0.0.1:9", 3)
			require.Equal(t, 3, hits(t, ns))
		})
	}
}

// S174: between two owners, other processes can change the table, even switch it off. The next
// owner repairs it.
func TestTakeOverAfterForeignChange(t *testing.T) {
	for name, script := range foreign {
		if script == "" || name == "switched off" { // nft cannot set that flag alone
			continue
		}
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			first := openOwned(t, ns)
			require.NoError(t, first.Apply(bg, sample()))
			require.NoError(t, first.Close())
			nft(t, ns, script)
			next := openOwned(t, ns)
			require.NoError(t, next.Apply(bg, sample()))
			require.True(t, next.Stats().Owned)
			requireLists(t, ns, sample())
			refusedNft(t, ns, "delete table inet own")
		})
	}
}
