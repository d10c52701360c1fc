// Why a token is refused: "revoked", "expired", or "" when it is not.
export const endOf = (token, now = Date.now()) => (token.revoked_at ? "revoked" : token.expires_at && new Date(token.expires_at) <= now ? "expired" : "");
