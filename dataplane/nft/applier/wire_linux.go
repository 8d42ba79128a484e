// SPDX-License-Identifier: Apache-2.0

package applier

// Numbers of the kernel's that golang.org/x/sys/unix does not have.
const (
	nftaTableOwner = 7

	tableDormant = 0x1
	tableOwner   = 0x2
	tablePersist = 0x4

	nftaChainFlags = 10

	nftaFlowtableTable = 1
	nftaFlowtableName  = 2

	nftaRulePositionID = 10
	nftaRuleID         = 9

	nftaSetExpr        = 17
	nftaSetExpressions = 18

	nftaSetDescConcat = 2
	nftaSetFieldLen   = 1

	nftaSetElemKeyEnd      = 10
	nftaSetElemExpressions = 11

	nftSetConcat = 0x80
	nftSetExpr   = 0x100

	nftaBitwiseOp    = 6
	nftaBitwiseData  = 7
	nftBitwiseRshift = 2

	nftaFibDreg   = 1
	nftaFibResult = 2
	nftaFibFlags  = 3

	nftaRejectType = 1
	nftaRejectCode = 2

	nftaNATFlags     = 7
	nftaMasqFlags    = 1
	nftaMasqProtoMin = 2
	nftaMasqProtoMax = 3

	nftaRedirProtoMin = 1
	nftaRedirProtoMax = 2
	nftaRedirFlags    = 3

	// The flags of a translation that say what is given (NF_NAT_RANGE_...). The kernel sets them by
	// itself, and lists them.
	natMapAddresses = 1
	natMapPorts     = 2

	// Types of entries in userdata: of a set, besides that of the key's byte order.
	udataSetDataByteOrder = 1
	udataSetComment       = 7
)
