// SPDX-License-Identifier: Apache-2.0

package applier

import "github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"

// NewOver is New over a socket of the test's, which Close closes.
func NewOver(cfg Config, sock nfnl.Socket) (*Applier, error) { return newApplier(cfg, sock) }
