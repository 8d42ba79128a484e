// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

// A table with the flag OWNER belongs to the netlink socket that set the flag. The kernel refuses
// writes of all other sockets to the table, and "flush ruleset" skips it. With the flag PERSIST the
// table outlives the socket: it then has no owner, and the next socket that sets both flags owns
// it. A table that was created without PERSIST can never get it.
//
// OWNER is always set together with PERSIST: without PERSIST, the kernel would delete the table
// with the socket.
const owned = encode.TableOwner | encode.TablePersist

// unowned is the reason to replace a table that has no owner and cannot get one.
const unowned = "the table has no owner and cannot get one"

// maxRelease limits how long Close waits until the table has no owner.
const maxRelease = time.Second

// maxOwnerAttempts limits the attempts to replace a table by one with an owner.
const maxOwnerAttempts = 3

// canOwn reports whether the kernel supports the given flags of a table: OWNER alone since Linux
// 5.12, OWNER with PERSIST since 6.9. Older kernels refuse them: up to 5.11 with EINVAL, later ones
// with EOPNOTSUPP. canOwn writes nothing.
func canOwn(conn *nfnl.Conn, family ruleset.Family, flags uint32) (bool, error) {
	batch := nfnl.NewBatch()
	encode.New(batch, family, fmt.Sprintf("probe-%d", conn.Port()), nil).CreateTable(flags, "")
	err := conn.Check(batch)
	if isRefused(err) && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)) {
		return false, nil
	}
	return err == nil, err
}

// dialOwnerQuery opens the socket with which Close queries the table's owner. If the table will not
// have an owner, it returns nil.
//
// Errors: those of the system calls.
func dialOwnerQuery(cfg Config, conn *nfnl.Conn) (*nfnl.Conn, error) {
	if cfg.Shared {
		return nil, nil
	}
	if owns, err := canOwn(conn, cfg.Family, owned); err != nil {
		return nil, err
	} else if !owns {
		cfg.Logger.Info("nftables: other processes can change the table: "+
			"tables with the flags owner and persist need Linux 6.9", "table", cfg.Name)
		return nil, nil
	}
	return nfnl.Dial(nfnl.Config{NetNS: cfg.NetNS})
}

// owner makes our socket the owner of the table, or reports that another process owns it.
type owner struct {
	cfg     *Config
	conn    *nfnl.Conn
	tracker *tracker
	reader  *readback.Reader
	writer  *writer
	tx      *transactor
	stats   *Stats
	// owns is set if the table should have an owner, and can have one. attempts is the number of
	// failed attempts to recreate the table with an owner.
	owns     bool
	attempts int
	// query is a second socket, with which close queries the table's owner. It is nil if the table
	// will never have an owner.
	query *nfnl.Conn
}

// takeOver makes our socket the owner of a table that an earlier process owned. It writes nothing
// else. If the table never had an owner, or our socket owns it already, it writes nothing at all.
//
// Errors: *OwnedError if another process owns the table; those of the system calls.
func (o *owner) takeOver() error {
	head, err := o.reader.Head()
	if err != nil {
		return err
	}
	o.stats.Owned = head.Owner == o.conn.Port()
	other := head.Owner != 0 && !o.stats.Owned
	o.tracker.yield(other)
	if other {
		return o.ownedError(head.Owner)
	}
	o.writer.flags = 0
	orphan := head.Flags&owned == encode.TablePersist
	if !o.owns || head.Exists && !orphan {
		return nil
	}
	o.writer.flags = owned // a new table is created with the flags, an existing one gets them now
	if !orphan {
		return nil
	}
	o.writer.Begin(owned)
	if _, err := o.tx.commit(o.writer.batch, nil); isRefused(err) { // another process became the owner first
		return fmt.Errorf("%w: %w", errChanged, err)
	} else if err != nil {
		return err
	}
	o.cfg.Logger.Debug("nftables: took over table", "table", o.cfg.Name)
	return nil
}

// close closes the socket that owns the table, and waits until the table has no owner. A forked
// process has a copy of the socket until it calls exec. The kernel clears the owner when the last
// copy is closed.
//
// Errors: those of the system calls.
func (o *owner) close() error {
	port := o.conn.Port()
	err := o.conn.Close()
	if o.query == nil {
		return err
	}
	r := readback.New(o.query, o.cfg.Family, o.cfg.Name)
	for end := time.Now().Add(maxRelease); err == nil; time.Sleep(time.Millisecond) {
		var head readback.Head
		if head, err = r.Head(); head.Owner != port {
			break
		}
		if time.Now().After(end) {
			o.cfg.Logger.Warn("nftables: the table still has an owner: a process has a copy of the socket, "+
				"or another Applier has its port", "table", o.cfg.Name, "port", port)
			break
		}
	}
	return errors.Join(err, o.query.Close())
}

// check returns err. If the reason for err is that another process owns the table, it returns an
// *OwnedError.
func (o *owner) check(err error) error {
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	head, failed := o.reader.Head()
	if failed != nil || head.Owner == 0 || head.Owner == o.conn.Port() {
		return err
	}
	return o.ownedError(head.Owner)
}

func (o *owner) ownedError(port uint32) *OwnedError {
	return &OwnedError{Family: o.cfg.Family, Table: o.cfg.Name, Port: port, Process: processOf(port)}
}

// disown counts a failed attempt to replace a table by one with an owner. The reason is err: the
// table is too large for one transaction, or the kernel refuses it. If the table is too large, or
// after several attempts, there are no further attempts. The table then stays without an owner.
// disown returns errChanged, because the table must be read again.
func (o *owner) disown(err error) error {
	var size *netlink.SizeError
	if o.attempts++; o.attempts >= maxOwnerAttempts || errors.As(err, &size) {
		o.owns = false
		o.cfg.Logger.Warn("nftables: other processes can change the table: it cannot be recreated with an owner",
			"table", o.cfg.Name, "error", err)
	}
	return fmt.Errorf("%w: %w", errChanged, err)
}

// processOf returns the name of the process whose id is the netlink port. The first netlink socket
// of a process has the process id as its port.
func processOf(port uint32) string {
	if port == 0 || port > math.MaxInt32 {
		return ""
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", port))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}
