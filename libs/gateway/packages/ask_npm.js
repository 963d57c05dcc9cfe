// Prints the settings of npm as JSON, read by npm's own code. The argument is the folder of npm. Credentials
// are searched like npm does: first for the path of a registry, then for its parent paths.
const { join } = require('node:path')

async function main () {
  const Npm = require(join(process.argv[1], 'lib', 'npm.js'))
  const npm = new Npm()
  await npm.load()
  const options = npm.flatOptions

  const authorization = (registry) => {
    const { host, pathname } = new URL(registry)
    let place = `//${host}${pathname.endsWith('/') ? pathname : pathname + '/'}`
    for (; place.length > 2; place = place.replace(/([^/]+|\/)$/, '')) {
      const of = (name) => options[`${place}:${name}`]
      if (of('_authToken')) return `Bearer ${of('_authToken')}`
      if (of('_auth')) return `Basic ${of('_auth')}`
      if (of('username') && of('_password')) {
        const password = Buffer.from(of('_password'), 'base64').toString()
        return 'Basic ' + Buffer.from(`${of('username')}:${password}`).toString('base64')
      }
    }
    return ''
  }
  const index = (url) => ({ url, authorization: authorization(url) })

  const scopes = {}
  for (const [key, url] of Object.entries(options)) {
    if (/^@.+:registry$/i.test(key)) scopes[key.slice(0, -':registry'.length)] = index(url)
  }
  const found = {
    registry: index(options.registry),
    scopes,
    trusted: [process.env.NODE_EXTRA_CA_CERTS].filter(Boolean),
    certificates: [].concat(options.ca || []).join('\n'),
    proxy: options.httpsProxy || options.proxy || null,
    no_proxy: options.noProxy || '',
  }
  process.stdout.write(JSON.stringify(found), () => process.exit(0))
}

main().catch((error) => {
  process.stderr.write(String(error && error.message) + '\n', () => process.exit(1))
})
