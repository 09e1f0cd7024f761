// A publisher made of the JavaScript packages for IPNI: makes a chain of advertisements, serves it and announces it.
//
//   node publisher.mjs KEY_KIND CODEC       KEY_KIND is Ed25519, RSA or secp256k1; CODEC is dag-json or dag-cbor
//
// The first line that it writes tells what it has published, as JSON. Each line that it reads is the JSON of an
// announcement to make, {"url", "json"}, and is answered with a line that contains the status. It ends with its input.
//
// The package makes and signs advertisements; chunks, the signed head and the HTTP server are left to its users.

import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import * as dagCbor from '@ipld/dag-cbor'
import * as dagJson from '@ipld/dag-json'
import { unmarshalPrivateKey } from '@libp2p/crypto/keys'
import { createEd25519PeerId, createRSAPeerId, createSecp256k1PeerId } from '@libp2p/peer-id-factory'
import { multiaddr } from '@multiformats/multiaddr'
import { Advertisement, Provider, createExtendedProviderAd } from '@web3-storage/ipni'
import { create } from 'ipld-hashmap'
import { CID } from 'multiformats/cid'
import { sha256 } from 'multiformats/hashes/sha2'

const TOPIC = '/indexer/ingest/mainnet'
const HAMT_KEYS = 300
const [keyKind, codecName] = process.argv.slice(2)
const codec = { 'dag-json': dagJson, 'dag-cbor': dagCbor }[codecName]
const makePeer = { Ed25519: createEd25519PeerId, RSA: createRSAPeerId, secp256k1: createSecp256k1PeerId }[keyKind]

const text = new TextEncoder()
const blocks = new Map()
const hex = (bytes) => Buffer.from(bytes).toString('hex')

async function keep (value) {
  const bytes = codec.encode(value)
  const cid = CID.create(1, codec.code, await sha256.digest(bytes))
  blocks.set(cid.toString(), bytes)
  return cid
}

async function multihashes (name, count) {
  const made = []
  for (let number = 0; number < count; number++) made.push((await sha256.digest(text.encode(`${name}-${number}`))).bytes)
  return made
}

async function chunks (entries, size) {
  let next
  for (let at = 0; at < entries.length; at += size) {
    const chunk = { Entries: entries.slice(at, at + size) }
    if (next) chunk.Next = next
    next = await keep(chunk)
  }
  return next
}

async function hamt (entries) {
  const store = {
    get: (cid) => blocks.get(cid.toString()),
    put: (cid, bytes) => { blocks.set(cid.toString(), bytes) }
  }
  const map = await create(store, { bitWidth: 5, bucketSize: 3, blockHasher: sha256, blockCodec: codec })
  for (const entry of entries) await map.set(entry, true)
  return map.cid
}

const peer = await makePeer()
const friendPeer = await createEd25519PeerId()
const provider = (protocol) => new Provider({ peerId: peer, addresses: '/ip4/203.0.113.1/tcp/4001', protocol })
const friend = new Provider({ peerId: friendPeer, addresses: '/dns4/friend.example/tcp/443/https', protocol: 'http' })

let head = null
const adverts = []
async function advertise (advert) {
  head = await keep(await advert.encodeAndSign())
  adverts.push(head.toString())
}

const held = {}
async function offer (context, protocol, entries, link) {
  held[context] = entries.map(hex)
  await advertise(new Advertisement({
    previous: head, providers: provider(protocol), entries: link, context: text.encode(context)
  }))
}

const inChunks = await multihashes('chunk', 7)
const inHamt = await multihashes('hamt', HAMT_KEYS)
const removed = await multihashes('removed', 2)
await offer('chunks', 'bitswap', inChunks, await chunks(inChunks, 3))
await offer('hamt', 'http', inHamt, await hamt(inHamt))
await offer('removed', 'bitswap', removed, await chunks(removed, 2))
await advertise(new Advertisement({
  previous: head, providers: provider('bitswap'), entries: null, context: text.encode('removed'), remove: true
}))
await advertise(createExtendedProviderAd({ previous: head, providers: [provider('bitswap'), friend] }))

async function signedHead () {
  const key = await unmarshalPrivateKey(peer.privateKey)
  const sig = await key.sign(Buffer.concat([head.bytes, text.encode(TOPIC)]))
  return dagJson.encode({ head, topic: TOPIC, pubkey: peer.publicKey, sig })
}

const server = createServer(async (request, response) => {
  const name = request.url.split('/ipni/v1/ad/')[1]
  const body = name === 'head' ? await signedHead() : blocks.get(name)
  response.writeHead(body ? 200 : 404)
  response.end(body ?? 'not found')
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const { port } = server.address()

async function announce ({ url, json }) {
  const address = multiaddr(`/ip4/127.0.0.1/tcp/${port}/http/p2p/${peer.toString()}`).bytes
  const body = json
    ? JSON.stringify({
      Cid: { '/': head.toString() }, Addrs: [Buffer.from(address).toString('base64')], ExtraData: null, OrigPeer: ''
    })
    : dagCbor.encode([head, [address], new Uint8Array()])
  const headers = { 'content-type': json ? 'application/json' : 'application/octet-stream' }
  return { status: (await fetch(url, { method: 'PUT', body, headers })).status }
}

const tell = (said) => process.stdout.write(JSON.stringify(said) + '\n')
tell({
  id: peer.toString(), friend: friendPeer.toString(), port, head: head.toString(), adverts, held,
  removed: removed.map(hex)
})
for await (const line of createInterface({ input: process.stdin })) tell(await announce(JSON.parse(line)))
process.exit(0)
