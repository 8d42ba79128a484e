// SPDX-License-Identifier: Apache-2.0

//go:build linux && !flowtable

package nft_test

import "github.com/wayleave/wayleave/dataplane/nft"

// onFastPath changes nothing: see the file for the tag flowtable.
func onFastPath(cfg nft.Config) nft.Config { return cfg }
