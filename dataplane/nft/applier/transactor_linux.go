// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

const (
	// restarts limits how often a transaction is sent again because other tables changed at the
	// same moment.
	restarts = 100
	// minPausedSize is a size in bytes. The notifications of a transaction of this size or more are
	// not received.
	minPausedSize = 64 << 10
	// maxNotifiedChains is a number of chains. If a transaction deletes all rules of more chains,
	// its notifications are not received.
	maxNotifiedChains = 16
)

// errChanged reports that another process changed our table.
var errChanged = errors.New("the table was changed by another process")

// transactor sends the transactions of the writer, and limits their size. The transactions of send
// are valid only for the generation of the tracker.
type transactor struct {
	conn    *nfnl.Conn
	tracker *tracker
	writer  *writer
	stats   *Stats
	// beforeWrite is Config.BeforeWrite.
	beforeWrite func() error
	// limit is the largest transaction in bytes.
	limit int
	// committed is the time of the last transaction.
	committed time.Time
	now       func() time.Time
}

// send commits a transaction that is valid only for the generation in which our table was last
// known. If another process changed other tables meanwhile, it sends the transaction again. It
// returns the echoed handles of new rules, by the sequence numbers of their messages.
//
// Errors: errChanged if our table was changed, and nothing was written; those of Config.BeforeWrite
// and of nfnl.Conn.Commit.
func (t *transactor) send(b *nfnl.Batch) (echoed map[uint32]uint64, err error) {
	if err := t.beforeWrite(); err != nil {
		return nil, err
	}
	for range restarts {
		generation, changed, err := t.tracker.drain()
		if err != nil {
			return nil, err
		}
		if changed {
			return nil, errChanged
		}
		b.Guard(generation)
		if b.Total() >= minPausedSize || t.writer.pauseMonitor {
			err = t.tracker.withMonitorPaused(func() (uint32, error) { return t.commit(b, nil) }, t.conn.Generation)
		} else {
			echoed = map[uint32]uint64{}
			_, err = t.commit(b, echoed)
		}
		if isRestart(err) {
			t.stats.Restarts++
			continue
		}
		if err == nil {
			t.committed = t.now()
		}
		return echoed, err
	}
	return nil, fmt.Errorf("other processes keep changing the ruleset: %w", unix.ERESTART)
}

// commit sends the batch once, and returns the generation to which it led.
func (t *transactor) commit(b *nfnl.Batch, echoed map[uint32]uint64) (reached uint32, err error) {
	err = t.conn.Commit(b, func(m nfnl.Message) {
		switch m.Type {
		case unix.NFT_MSG_NEWGEN:
			reached = netlink.Number32(netlink.FindAttr(m.Attrs, unix.NFTA_GEN_ID))
		case unix.NFT_MSG_NEWTABLE:
			t.stats.Owned = netlink.Number32(netlink.FindAttr(m.Attrs, encode.AttrTableOwner)) == t.conn.Port()
		case unix.NFT_MSG_NEWRULE:
			if echoed != nil {
				echoed[m.Sequence] = netlink.Number64(netlink.FindAttr(m.Attrs, unix.NFTA_RULE_HANDLE))
			}
		}
	})
	if err == nil {
		t.stats.Transactions++
		t.stats.Bytes += uint64(b.Total())
	}
	return reached, err
}

// deleteTable deletes the table, whatever the generation and whatever other processes have changed.
func (t *transactor) deleteTable() error {
	t.writer.Begin(0)
	t.writer.DeleteTable()
	commit := func() (uint32, error) { return t.commit(t.writer.batch, nil) }
	return t.tracker.withMonitorPaused(commit, t.conn.Generation)
}

// isRestart reports whether the generation is the only reason of a refusal.
func isRestart(err error) bool {
	var refused *nfnl.CommitError
	return errors.As(err, &refused) && errors.Is(refused.Failures[0].Err, unix.ERESTART)
}

// submit sends the written transaction, and records the handles of its rules.
func (t *transactor) submit() error {
	echoed, err := t.send(t.writer.batch)
	if err != nil {
		if isRefused(err) {
			t.stats.Refused++
		}
		return err
	}
	t.writer.handles.commit(echoed)
	return nil
}

// submitWhole sends the written transaction, unless it is larger than the limit.
func (t *transactor) submitWhole() error {
	if size := t.writer.batch.Total(); size > t.limit {
		return &netlink.SizeError{Size: size, Limit: t.limit}
	}
	return t.submit()
}

// commitPlain commits operations without an epoch.
//
// Errors: those of writer.write and submitWhole.
func (t *transactor) commitPlain(ops []ruleset.Op) error {
	if err := t.writer.write(ops, nil, nil); err != nil {
		return err
	}
	return t.submitWhole()
}

// cut carries out operations in as many transactions as necessary.
func (t *transactor) cut(ops []ruleset.Op) error {
	ops = small(ops, max(1, min(500, t.limit/1024)))
	w := t.writer
	for len(ops) > 0 {
		w.beginOps(ops)
		n := 0
		for ; n < len(ops) && (n == 0 || w.batch.Total() < t.limit/2); n++ {
			if err := w.op(ops[n : n+1]); err != nil {
				return err
			}
		}
		if err := w.Err(); err != nil {
			return err
		}
		if err := t.submit(); err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

// small divides operations with more than n elements.
func small(ops []ruleset.Op, n int) []ruleset.Op {
	out := make([]ruleset.Op, 0, len(ops))
	for _, op := range ops {
		if len(op.Elements) == 0 {
			out = append(out, op)
			continue
		}
		for part := range slices.Chunk(op.Elements, n) {
			op.Elements = part
			out = append(out, op)
		}
	}
	return out
}

// removeForeign removes the foreign objects in d, in as many transactions as necessary. It removes
// rules before the objects to which they refer.
func (t *transactor) removeForeign(d *readback.Difference) error {
	w := t.writer
	w.beginOps(nil)
	first, last := w.foreignMessages(d)
	messages := append(first, last...)
	for i, message := range messages {
		message()
		if i < len(messages)-1 && w.batch.Total() < t.limit/2 {
			continue
		}
		if err := w.Err(); err != nil {
			return err
		}
		if err := t.submit(); err != nil {
			return err
		}
		w.beginOps(nil)
	}
	return nil
}

// checkBatch lets the kernel check the writer's batch, without a commit.
//
// Errors: errChanged if another process has changed the ruleset; those of nfnl.Conn.Check.
func (t *transactor) checkBatch() error {
	generation, changed, err := t.tracker.drain()
	if err != nil || changed {
		return errors.Join(errChanged, err)
	}
	t.writer.batch.Guard(generation)
	err = t.conn.Check(t.writer.batch)
	if isRestart(err) {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return err
}

// isRefused reports whether the kernel refused a transaction and changed nothing.
func isRefused(err error) bool {
	var refused *nfnl.CommitError
	return errors.As(err, &refused) && !isRestart(err)
}

func detailOf(err error) string {
	var refused *nfnl.CommitError
	if errors.As(err, &refused) {
		return refused.Detail()
	}
	return ""
}

// fail returns an *Error that is not about a single object.
func fail(op, table string, err error) error {
	return &Error{Op: op + " " + table, Detail: detailOf(err), Err: err}
}
