// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/internal/netlink"
)

const (
	// restarts is how often a transaction is sent again because others changed other tables at that
	// very moment.
	restarts = 100
	// quiet is the size of a transaction, in bytes, from which on we do not listen to it ourselves.
	quiet = 64 << 10
	// quietChains is the number of chains likewise whose rules all go at once.
	quietChains = 16
)

// errChanged says that our table is not what we took it for.
var errChanged = errors.New("the table was changed by another process")

// send commits a transaction for the generation in which our table was last known. It sends the
// transaction again if another process changed other tables meanwhile. It returns the echoed
// handles of new rules by the sequence numbers of their messages.
//
// Errors: one that is errChanged if our table was changed, and nothing was done; those of
// Config.BeforeWrite and of nfnl.Conn.Commit.
func (a *Applier) send(b *nfnl.Batch) (echoed map[uint32]uint64, err error) {
	if err := a.cfg.BeforeWrite(); err != nil {
		return nil, err
	}
	for range restarts {
		generation, touched, err := a.tracker.drain()
		if err != nil {
			return nil, err
		}
		if touched {
			return nil, errChanged
		}
		b.Guard(generation)
		if b.Total() >= quiet || a.writer.loud {
			err = a.tracker.withMonitorPaused(func() (uint32, error) { return a.commit(b, nil) }, a.conn.Generation)
		} else {
			echoed = map[uint32]uint64{}
			_, err = a.commit(b, echoed)
		}
		if isRestart(err) {
			a.stats.Restarts++
			continue
		}
		if err == nil {
			a.committed = a.now()
			a.stats.Transactions++
			a.stats.Bytes += uint64(b.Total())
		}
		return echoed, err
	}
	return nil, fmt.Errorf("other processes keep changing the ruleset: %w", unix.ERESTART)
}

// commit sends the batch once, and returns the generation that it led to.
func (a *Applier) commit(b *nfnl.Batch, echoed map[uint32]uint64) (reached uint32, err error) {
	err = a.conn.Commit(b, func(m nfnl.Message) {
		switch m.Type {
		case unix.NFT_MSG_NEWGEN:
			reached = netlink.Number32(netlink.FindAttr(m.Attrs, unix.NFTA_GEN_ID))
		case unix.NFT_MSG_NEWTABLE:
			a.stats.Owned = netlink.Number32(netlink.FindAttr(m.Attrs, encode.AttrTableOwner)) == a.conn.Port()
		case unix.NFT_MSG_NEWRULE:
			if echoed != nil {
				echoed[m.Sequence] = netlink.Number64(netlink.FindAttr(m.Attrs, unix.NFTA_RULE_HANDLE))
			}
		}
	})
	return reached, err
}

// isRestart reports whether a transaction was refused for its generation alone.
func isRestart(err error) bool {
	var refused *nfnl.CommitError
	return errors.As(err, &refused) && errors.Is(refused.Failures[0].Err, unix.ERESTART)
}
