// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nft

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

func (*Dataplane) replace(*ruleset.Table) error { return nfnl.ErrUnsupported }

func (*Dataplane) remove(string) error { return nfnl.ErrUnsupported }
