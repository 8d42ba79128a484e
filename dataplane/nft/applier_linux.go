// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// replace puts the table in the place of what has its name, in one transaction. If that is refused it
// tries again without regard for the old base chains, for others may have put into the
// old table what speaks against deleting them first.
func (d *Dataplane) replace(table *ruleset.Table) error {
	batch, err := encodeReplace(table, true)
	if err != nil {
		return err
	}
	err = d.conn.Commit(batch)
	var refused *nfnl.CommitError
	if !errors.As(err, &refused) {
		return err
	}
	if batch, err = encodeReplace(table, false); err != nil {
		return err
	}
	return d.conn.Commit(batch)
}

// remove deletes the table if it exists.
func (d *Dataplane) remove(table string) error {
	return d.conn.Commit(encodeRemove(table))
}
