// SPDX-License-Identifier: Apache-2.0

// Package codec translates events and errors between package dataplane and the messages of the wire protocol.
//
// # Usage
//
//	message, err := codec.Encode(event)
//	event, err := codec.Decode(message)
//
//	list := codec.EncodeStatus(dp.Apply(ctx, batch))
//	err := codec.DecodeStatus(list)
//
// # Concurrency
//
// All functions may be called from any goroutine. A message shares texts, profiles and labels with its event, and an
// event texts and labels with its message: nobody may change either.
//
// # Errors
//
// Encode refuses a value that has no form in a message, because dropping it can make a rule match more packets. Decode
// accepts only what a server may send. Errors name the object and the field, as
// "codec: policy Policy/shop/web: ingress[3].source.nets[0]: prefix length 40 of an IPv4 address".
package codec
