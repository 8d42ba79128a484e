// SPDX-License-Identifier: Apache-2.0

package nft

import "github.com/wayleave/wayleave/dataplane/nft/ruleset"

// replace puts the table in the place of what has its name, in one transaction.
func (d *Dataplane) replace(table *ruleset.Table) error {
	batch, err := encodeReplace(table)
	if err != nil {
		return err
	}
	return d.conn.Commit(batch)
}

// remove deletes the table if it exists.
func (d *Dataplane) remove(table string) error {
	return d.conn.Commit(encodeRemove(table))
}
