// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Replace writes a table that no renderer made.
func Replace(cfg nfnl.Config, table *ruleset.Table) error {
	conn, err := nfnl.Dial(cfg)
	if err != nil {
		return err
	}
	d := &Dataplane{conn: conn}
	err = d.replace(table)
	_ = d.Close()
	return err
}
