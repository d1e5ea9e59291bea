declare module "*.css";

/** The licence texts of the packages in the bundle; build.mjs puts them in. */
declare const LICENCES: string;
