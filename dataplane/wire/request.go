// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/frame"
	"github.com/wayleave/wayleave/dataplane/wire/internal/parts"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

// request writes the messages of a request. Each message has the number of the request.
type request func(conn *frame.Conn, number uint64) error

// batchRequest returns the request to apply a batch.
func batchRequest(generation uint64, snapshot bool, b dataplane.Batch) request {
	return func(conn *frame.Conn, number uint64) error {
		return parts.Write(b, func(p parts.Part) error {
			return conn.Write(&wirepb.ServerMessage{Message: &wirepb.ServerMessage_Batch{Batch: &wirepb.Batch{
				Request: number, Generation: generation, Snapshot: snapshot && p.First, More: p.More, Events: p.Events,
			}}})
		})
	}
}

func planRequest(b dataplane.Batch) request {
	return func(conn *frame.Conn, number uint64) error {
		return parts.Write(b, func(p parts.Part) error {
			return conn.Write(&wirepb.ServerMessage{Message: &wirepb.ServerMessage_Plan{
				Plan: &wirepb.Plan{Request: number, More: p.More, Events: p.Events},
			}})
		})
	}
}

func resyncRequest() request {
	return func(conn *frame.Conn, number uint64) error {
		return conn.Write(&wirepb.ServerMessage{Message: &wirepb.ServerMessage_Resync{
			Resync: &wirepb.Resync{Request: number},
		}})
	}
}

func teardownRequest() request {
	return func(conn *frame.Conn, number uint64) error {
		return conn.Write(&wirepb.ServerMessage{Message: &wirepb.ServerMessage_Teardown{
			Teardown: &wirepb.Teardown{Request: number},
		}})
	}
}
